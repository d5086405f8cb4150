//! A result in, what the client gets out.

use data_encoding::BASE64;
use overspill::store::{Handle, Stored};
use overspill::summary::NoModel;
use overspill_store::MemoryStore;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::json::packed;
use crate::long::Spool;

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn reducer_of(config: Config) -> Reducer {
    let store = Arc::new(MemoryStore::default());
    Reducer::new(config, store, Arc::new(NoModel::because("no")), "run".into()).unwrap()
}

fn reducer() -> Reducer {
    reducer_of(Config::default())
}

fn lines(n: usize) -> String {
    (0..n).map(|i| format!("line {i} of a long text\n")).collect()
}

/// The result after it was reduced; `None` where it passed.
fn reduced(reducer: &Reducer, result: &Value) -> Option<Value> {
    let reduced = block_on(reducer.tool_result("t", &result.to_string(), None)).result?;
    Some(serde_json::from_str(&reduced).unwrap())
}

fn payload(reducer: &Reducer, view: &str) -> String {
    String::from_utf8(bytes_of(reducer, view)).unwrap()
}

fn bytes_of(reducer: &Reducer, view: &str) -> Vec<u8> {
    stored(reducer, &overspill::Marker::handles(view).next().unwrap())
}

fn stored(reducer: &Reducer, handle: &Handle) -> Vec<u8> {
    block_on(async {
        let stored = Stored::open(reducer.store(), handle).await.unwrap();
        let bytes = stored.bytes(0..stored.receipt().bytes).await.unwrap();
        bytes.to_vec()
    })
}

#[test]
fn a_text_is_stored_whole_and_all_else_keeps_its_bytes() {
    let reducer = reducer();
    let text = lines(1_000);
    let literal = quote(&text);
    let result = format!(
        r#"{{ "_meta":{{"n":1.50}}, "content":[{{"type":"text","text":{literal},"annotations":{{"priority":1e0}}}} ] }}"#
    );
    let reduced = block_on(reducer.tool_result("t", &result, None));
    let new = reduced.result.unwrap();
    let (before, after) = result.split_once(&literal).unwrap();
    assert!(new.starts_with(before) && new.ends_with(after), "{new}");
    let view = serde_json::from_str::<Value>(&new).unwrap()["content"][0]["text"].clone();
    let view = view.as_str().unwrap();
    assert!(view.starts_with("[overspill: ") && view.contains("read_tool_result("), "{view}");
    assert!(view.len() < 2_500);
    assert_eq!(payload(&reducer, view), text);
    assert_eq!(reduced.receipts.len(), 1);
}

#[test]
fn structured_content_that_says_the_same_is_stored_once() {
    let reducer = reducer();
    let text = lines(1_000);
    let list: Value = (0..2_000).map(|i| json!({ "id": i, "n": 1.5 })).collect();
    for (text, structured) in [
        (text.clone(), json!({ "result": text })),
        (serde_json::to_string_pretty(&list).unwrap(), json!({ "items": list })),
    ] {
        let result = json!({ "content": [{ "type": "text", "text": text }], "structuredContent": structured });
        let reduced = block_on(reducer.tool_result("t", &result.to_string(), None));
        assert_eq!(reduced.receipts.len(), 1);
        let new: Value = serde_json::from_str(&reduced.result.unwrap()).unwrap();
        let stand_in = &new["structuredContent"];
        assert_eq!(stand_in["$overspill"], reduced.receipts[0].handle.as_str());
        assert_eq!(stand_in["view"], new["content"][0]["text"]);
    }
}

#[test]
fn structured_content_of_its_own_is_stored_as_it_was_spelled() {
    let reducer = reducer();
    let rows = (0..3_000).map(|i| format!("{{\"n\": {i}.50}}")).collect::<Vec<_>>().join(", ");
    let structured = format!("{{\"rows\": [{rows}]}}");
    let result = format!(
        r#"{{"content":[{{"type":"text","text":"3000 rows"}}],"structuredContent":{structured}}}"#
    );
    let new = block_on(reducer.tool_result("t", &result, None)).result.unwrap();
    let new: Value = serde_json::from_str(&new).unwrap();
    assert_eq!(new["content"][0]["text"], "3000 rows");
    assert_eq!(new["structuredContent"]["as"], "json");
    assert_eq!(payload(&reducer, new["structuredContent"]["view"].as_str().unwrap()), structured);
}

#[test]
fn adjacent_texts_are_one_and_images_stay() {
    let reducer = reducer();
    let image = json!({ "type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png" });
    let text = |n: usize| json!({ "type": "text", "text": lines(n) });
    let result =
        json!({ "content": [text(300), text(300), image, { "type": "text", "text": "end" }] });
    let new = reduced(&reducer, &result).unwrap();
    let content = new["content"].as_array().unwrap();
    assert_eq!(content.len(), 3);
    assert_eq!(content[1], image);
    assert_eq!(content[2]["text"], "end");
    let stored = payload(&reducer, content[0]["text"].as_str().unwrap());
    assert_eq!(stored, format!("{}\n{}", lines(300), lines(300)));
}

#[test]
fn a_flood_of_links_leaves_as_one_text() {
    let reducer = reducer();
    let link = |i: usize| json!({ "type": "resource_link", "uri": format!("file:///{i}"), "name": format!("file {i}") });
    let result = json!({ "content": (0..500).map(link).collect::<Vec<_>>() });
    let new = reduced(&reducer, &result).unwrap();
    assert_eq!(new["content"].as_array().unwrap().len(), 1);
    let stored = payload(&reducer, new["content"][0]["text"].as_str().unwrap());
    assert_eq!(stored.lines().count(), 500);
    assert_eq!(serde_json::from_str::<Value>(stored.lines().nth(7).unwrap()).unwrap(), link(7));
}

#[test]
fn many_small_blocks_between_images_leave_together() {
    let reducer = reducer();
    let image = json!({ "type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png" });
    let text = |i: usize| json!({ "type": "text", "text": format!("{i} {}", "word ".repeat(20)) });
    let content: Vec<Value> = (0..200).flat_map(|i| [text(i), image.clone()]).collect();
    let new = reduced(&reducer, &json!({ "content": content })).unwrap();
    let content = new["content"].as_array().unwrap();
    assert_eq!(content.iter().filter(|block| **block == image).count(), 200);
    assert_eq!(content.len(), 201);
    let stored = payload(&reducer, content[0]["text"].as_str().unwrap());
    assert_eq!(serde_json::from_str::<Value>(stored.lines().last().unwrap()).unwrap(), text(199));
}

#[test]
fn many_small_blocks_that_are_no_plain_text_are_stored_once() {
    let resource = |i: usize| json!({ "type": "resource", "resource": { "uri": "a:/", "text": format!("abc {i}") } });
    let noted = |i: usize| json!({ "type": "text", "text": format!("{i} {}", "line of text ".repeat(38)), "annotations": { "priority": 1 } });
    let blocks: [&dyn Fn(usize) -> Value; 2] = [&resource, &noted];
    for block in blocks {
        let reducer = reducer();
        let content: Vec<Value> = (0..4_000).map(block).collect();
        let result = json!({ "content": content });
        let reduced = block_on(reducer.tool_result("t", &result.to_string(), None));
        assert_eq!(reduced.receipts.len(), 1);
        let new: Value = serde_json::from_str(&reduced.result.unwrap()).unwrap();
        assert_eq!(new["content"].as_array().unwrap().len(), 1);
        let stored = payload(&reducer, new["content"][0]["text"].as_str().unwrap());
        let stored: Vec<Value> =
            stored.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(stored, content);
    }
}

#[test]
fn an_embedded_resource_keeps_its_address() {
    let reducer = reducer();
    let text = lines(1_000);
    let blob = BASE64.encode(&(0..=255).cycle().take(40_000).collect::<Vec<u8>>());
    let result = json!({ "content": [
        { "type": "resource", "resource": { "uri": "file:///a", "text": text } },
        { "type": "resource", "resource": { "uri": "file:///b", "mimeType": "application/zip", "blob": blob } },
        { "type": "resource", "resource": { "uri": "file:///c", "mimeType": "image/png", "blob": "iVBORw0KGgo=" } },
    ] });
    let new = reduced(&reducer, &result).unwrap();
    let resource = |i: usize| &new["content"][i]["resource"];
    assert_eq!(resource(0)["uri"], "file:///a");
    assert_eq!(payload(&reducer, resource(0)["text"].as_str().unwrap()), text);
    assert!(resource(1)["text"].as_str().unwrap().starts_with("[overspill: "));
    assert!(resource(1).get("blob").is_none());
    assert_eq!(new["content"][2], result["content"][2]);
}

#[test]
fn a_blob_goes_with_its_key_however_that_is_spelled() {
    let reducer = reducer();
    let blob = BASE64.encode(&(0..=255).cycle().take(40_000).collect::<Vec<u8>>());
    let result = format!(
        r#"{{"content":[{{"type":"resource","resource":{{"uri":"blob","name":"blob","bl\u006fb" : "{blob}"}}}}]}}"#
    );
    let new = block_on(reducer.tool_result("t", &result, None)).result.unwrap();
    let new: Value = serde_json::from_str(&new).unwrap();
    let resource = &new["content"][0]["resource"];
    assert_eq!((&resource["uri"], &resource["name"]), (&json!("blob"), &json!("blob")));
    assert!(resource["text"].as_str().unwrap().starts_with("[overspill: "));
    assert!(resource.get("blob").is_none());
}

#[test]
fn errors_pass_whole_up_to_a_bound_of_their_own() {
    let reducer = reducer();
    let error =
        |n: usize| json!({ "isError": true, "content": [{ "type": "text", "text": lines(n) }] });
    assert_eq!(reduced(&reducer, &error(3_000)), None);
    let new = reduced(&reducer, &error(10_000)).unwrap();
    assert_eq!(new["isError"], true);
    assert!(new["content"][0]["text"].as_str().unwrap().starts_with("[overspill: "));
}

#[test]
fn what_stands_beside_the_content_is_bounded() {
    let rows: Value = (0..2_000).map(|i| json!({ "id": i })).collect();
    let (text, rows) = (lines(1_000), rows.to_string());
    let digits = format!("0.{}", "7".repeat(20_000));
    for (value, stored, form) in [
        (quote(&text), &text, None),
        (rows.clone(), &rows, Some("json")),
        (digits.clone(), &digits, Some("json")),
    ] {
        for key in ["toolResult", "rows", "structuredContent", "isError", "resultType"] {
            let reducer = reducer();
            let short = format!(r#""_meta":{{"n":1.50,"x":{value}}}, "content": [ ],"n":1e0"#);
            let result = format!(r#"{{{short}, "{key}" : {value} }}"#);
            let new = block_on(reducer.tool_result("t", &result, None)).result.unwrap();
            assert!(new.starts_with(&format!("{{{short}, \"{key}\" : {{\"$overspill\":")), "{new}");
            let new: Value = serde_json::from_str(&new).unwrap();
            assert_eq!(new[key]["as"].as_str(), form);
            assert_eq!(payload(&reducer, new[key]["view"].as_str().unwrap()), **stored);
        }
    }
}

#[test]
fn members_that_nobody_knows_leave_together_where_they_are_many() {
    for (many, bytes) in [(17, 2_000), (3_000, 20)] {
        let reducer = reducer();
        let members: Vec<String> =
            (0..many).map(|i| format!(r#""k\"{i}":[{i}.50, "{}"]"#, "x".repeat(bytes))).collect();
        let members = members.join(" , ");
        let result = format!(r#"{{"isError":false,{members} ,"content":[],"last":"y"}}"#);
        let new = block_on(reducer.tool_result("t", &result, None)).result.unwrap();
        let new: Value = serde_json::from_str(&new).unwrap();
        let keys: Vec<&String> = new.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["isError", "$overspill", "content"]);
        let stored = payload(&reducer, new["$overspill"]["view"].as_str().unwrap());
        let all = format!(r#"{{{members},"last":"y"}}"#);
        let read = |json: &str| serde_json::from_str::<Value>(json).unwrap();
        assert_eq!(read(&stored), read(&all));
        assert!(stored.contains(r#""k\"7":[7.50, "x"#));
    }
}

#[test]
fn content_that_stands_twice_is_bounded_twice() {
    let reducer = reducer();
    let content = |n: usize| json!([{ "type": "text", "text": lines(n) }]).to_string();
    let result = format!(r#"{{"content":{},"content":{}}}"#, content(1_001), content(1_000));
    let new = block_on(reducer.tool_result("t", &result, None)).result.unwrap();
    assert!(new.len() < 10_000);
    let new: Value = serde_json::from_str(&new.replacen("\"content\"", "\"first\"", 1)).unwrap();
    assert_eq!(payload(&reducer, new["first"]["view"].as_str().unwrap()), content(1_001));
    assert_eq!(payload(&reducer, new["content"][0]["text"].as_str().unwrap()), lines(1_000));
}

#[test]
fn an_error_of_the_protocol_is_an_error_too() {
    let (short, text) = (lines(1_000), lines(10_000));
    let data = json!({ "rows": vec![1.5; 40_000] });
    let of =
        |message: &str, data: &Value| json!({ "code": -32603, "message": message, "data": data });
    for error in [of(&short, &json!(null)), of("m", &json!({ "a": short }))] {
        let reduced = block_on(reducer().tool_error("t", &error.to_string(), None));
        assert_eq!(reduced.result, None);
    }
    for (error, message, data) in [
        (of(&text, &json!(1)), Some(&text), None),
        (of("no", &data), None, Some(data.to_string())),
        (of("no", &json!(text)), None, Some(text.clone())),
        (of(&text, &data), Some(&text), Some(data.to_string())),
    ] {
        let reducer = reducer();
        let new = block_on(reducer.tool_error("t", &error.to_string(), None)).result.unwrap();
        let new: Value = serde_json::from_str(&new).unwrap();
        assert_eq!(new["code"], -32603);
        match message {
            Some(text) => assert_eq!(payload(&reducer, new["message"].as_str().unwrap()), *text),
            None => assert_eq!(new["message"], error["message"]),
        }
        match data {
            Some(data) => {
                assert_eq!(payload(&reducer, new["data"]["view"].as_str().unwrap()), data);
            }
            None => assert_eq!(new["data"], error["data"]),
        }
    }
}

#[test]
fn an_error_that_is_none_is_stored_whole() {
    let reducer = reducer();
    let text = quote(&lines(10_000));
    let broken = format!(r#"{{"code":1,"message":{text},"\ud800":1}}"#);
    for error in [text.clone(), format!("[{text}]"), broken] {
        let new = block_on(reducer.tool_error("t", &error, None)).result.unwrap();
        let new: Value = serde_json::from_str(&new).unwrap();
        assert!(new["code"].is_i64());
        assert_eq!(payload(&reducer, new["message"].as_str().unwrap()), error);
    }
    let error = format!(r#"{{"code":{text},"message":[{text}]}}"#);
    let new = block_on(reducer.tool_error("t", &error, None)).result.unwrap();
    assert!(new.len() < 10_000, "{new}");
}

/// A line on disk, as a session has it.
fn spooled(line: &str) -> (String, Long) {
    let mut spool = Spool::new().unwrap();
    spool.push(line.as_bytes()).unwrap();
    spool.finish().unwrap()
}

#[test]
fn what_lies_on_disk_is_stored_as_what_is_held_in_memory() {
    let text = lines(60_000);
    let bytes: Vec<u8> = (0..=255).cycle().take(1_500_001).collect();
    let literal = quote(&text);
    let half = format!("\"\\ud800{}\"", "x".repeat(2_000_000));
    let slashed = BASE64.encode(&bytes).replace('/', "\\/");
    let blob = |data: &str| {
        format!(r#"{{"content":[{{"type":"resource","resource":{{"blob": {data},"uri":"a:"}}}}]}}"#)
    };
    let custom = format!(r#"{{"type":"custom", "x":[{literal}, 1.50]}}"#);
    let object = format!(r#"{{"a": {literal}, "n": 1.50}}"#);
    let many: Vec<String> = (0..20).map(|i| format!(r#""k{i}":{literal}"#)).collect();
    for (result, at, stored) in [
        (blob(&format!("\"{slashed}\"")), "/content/0/resource/text", bytes.clone()),
        (blob(&literal), "/content/0/resource/text", text.clone().into()),
        (blob(&half), "/content/0/resource/text", half.clone().into()),
        (
            format!(r#"{{"content":[{custom}]}}"#),
            "/content/0/text",
            format!("{}\n", packed(&custom)).into(),
        ),
        (format!(r#"{{"toolResult":{literal}}}"#), "/toolResult/view", text.clone().into()),
        (format!(r#"{{"toolResult":{half}}}"#), "/toolResult/view", half.clone().into()),
        (
            format!(r#"{{"structuredContent":{object},"content":[]}}"#),
            "/structuredContent/view",
            object.clone().into(),
        ),
        (
            format!("{{{}}}", many.join(", ")),
            "/$overspill/view",
            format!("{{{}}}", many.join(",")).into(),
        ),
        (
            format!(r#"{{"content":{literal}}}"#),
            "/content/0/text",
            format!(r#"{{"content":{literal}}}"#).into(),
        ),
    ] {
        let (skeleton, long) = spooled(&result);
        for (result, long) in [(&skeleton, Some(&long)), (&result, None)] {
            let reducer = reducer();
            let new = block_on(reducer.tool_result("t", result, long)).result.unwrap();
            assert!(!crate::long::is_in(&new) && new.len() < 10_000, "{at}");
            let new: Value = serde_json::from_str(&new).unwrap();
            let view = new.pointer(at).and_then(Value::as_str).unwrap_or_else(|| panic!("{at}"));
            assert!(bytes_of(&reducer, view) == stored, "{at}");
        }
    }
    let error = format!(r#"{{"code":1,"message":{literal},"data":{object}}}"#);
    let (skeleton, long) = spooled(&error);
    let reducer = reducer();
    let new = block_on(reducer.tool_error("t", &skeleton, Some(&long))).result.unwrap();
    let new: Value = serde_json::from_str(&new).unwrap();
    assert!(payload(&reducer, new["message"].as_str().unwrap()) == text);
    assert!(payload(&reducer, new["data"]["view"].as_str().unwrap()) == object);
}

#[test]
fn what_is_said_twice_on_disk_is_stored_once() {
    let text = lines(60_000);
    let literal = quote(&text);
    for structured in [literal.clone(), format!(r#"{{"result":{literal}}}"#)] {
        let result = format!(
            r#"{{"content":[{{"type":"text","text":{literal}}}],"structuredContent":{structured}}}"#
        );
        let (skeleton, long) = spooled(&result);
        let reducer = reducer();
        let reduced = block_on(reducer.tool_result("t", &skeleton, Some(&long)));
        assert_eq!(reduced.receipts.len(), 1);
        let new: Value = serde_json::from_str(&reduced.result.unwrap()).unwrap();
        let stand_in = &new["structuredContent"];
        assert_eq!(stand_in["$overspill"], reduced.receipts[0].handle.as_str());
        assert_eq!((&stand_in["view"], stand_in.get("as")), (&new["content"][0]["text"], None));
        assert!(payload(&reducer, stand_in["view"].as_str().unwrap()) == text);
    }
}

#[test]
fn what_stays_on_disk_is_never_stored_as_what_stands_for_it() {
    let literal = quote(&lines(60_000));
    let image = format!(r#"{{"type":"image","data":{literal},"mimeType":"image/png"}}"#);
    let uri = format!(r#"{{"type":"resource","resource":{{"uri":{literal},"text":"x"}}}}"#);
    let small = json!({ "type": "text", "text": lines(30), "annotations": { "priority": 1 } });
    let small = vec![small.to_string(); 200].join(",");
    let result = format!(r#"{{"_meta":{{"a":{literal}}},"content":[{image},{uri},{small}]}}"#);
    let (skeleton, long) = spooled(&result);
    let reducer = reducer();
    let reduced = block_on(reducer.tool_result("t", &skeleton, Some(&long)));
    for receipt in &reduced.receipts {
        let stored = String::from_utf8(stored(&reducer, &receipt.handle)).unwrap();
        assert!(!crate::long::is_in(&stored));
    }
    let new = reduced.result.unwrap_or(skeleton);
    assert_eq!(long.stand_ins(&new).len(), 3);
}

#[test]
fn what_is_no_result_yet_passes() {
    let reducer = reducer();
    let text = lines(1_000);
    for result in [
        json!({ "resultType": "input_required", "content": [{ "type": "text", "text": text }] }),
        json!({ "resultType": "task", "content": [{ "type": "text", "text": text }] }),
        json!({ "task": { "taskId": "1" }, "content": [{ "type": "text", "text": text }] }),
        json!({ "taskId": "1", "status": "working", "inputRequests": { "a": text } }),
    ] {
        assert_eq!(reduced(&reducer, &result), None, "{result}");
    }
}

#[test]
fn what_only_looks_like_no_result_yet_is_reduced() {
    let reducer = reducer();
    let content = json!([{ "type": "text", "text": lines(1_000) }]);
    for (key, value) in [("task", json!(0)), ("task", json!(null)), ("resultType", json!("x"))] {
        let new = reduced(&reducer, &json!({ "content": content, key: value })).unwrap();
        assert_eq!(payload(&reducer, new["content"][0]["text"].as_str().unwrap()), lines(1_000));
        assert_eq!(new[key], value);
    }
}

#[test]
fn a_result_that_cannot_be_read_is_stored_whole() {
    let reducer = reducer();
    let text = quote(&lines(1_000));
    for result in [
        format!(r#"{{"content":[{{"type":"text","text":{text}}}],"\ud800":1}}"#),
        format!(r#"{{"content":{text}}}"#),
        format!(r#"{{"content":{{"type":"text","text":{text}}}}}"#),
        format!("[{text}]"),
        text,
    ] {
        let new = block_on(reducer.tool_result("t", &result, None)).result.unwrap();
        let new: Value = serde_json::from_str(&new).unwrap();
        assert_eq!(payload(&reducer, new["content"][0]["text"].as_str().unwrap()), result);
    }
}

#[test]
fn half_a_surrogate_pair_is_stored_as_it_was() {
    let reducer = reducer();
    let literal = format!("\"\\ud800{}\"", "x".repeat(20_000));
    let result = format!(r#"{{"content":[{{"type":"text","text":{literal}}}]}}"#);
    let new = block_on(reducer.tool_result("t", &result, None)).result.unwrap();
    let new: Value = serde_json::from_str(&new).unwrap();
    assert_eq!(payload(&reducer, new["content"][0]["text"].as_str().unwrap()), literal);
}

#[test]
fn a_tool_that_is_not_concerned_passes() {
    let config = Config::parse("t", "[tools]\nexcept = [\"t\"]").unwrap();
    let result = json!({ "content": [{ "type": "text", "text": lines(1_000) }] });
    assert_eq!(reduced(&reducer_of(config), &result), None);
}

#[test]
fn resources_that_are_read_are_reduced_the_same_way() {
    let reducer = reducer();
    let result = json!({ "contents": [{ "uri": "file:///a", "text": lines(1_000) }] }).to_string();
    let new = block_on(reducer.resource_result(&result, None)).result.unwrap();
    let new: Value = serde_json::from_str(&new).unwrap();
    assert_eq!(payload(&reducer, new["contents"][0]["text"].as_str().unwrap()), lines(1_000));
}

/// Blocks of every kind, of any size.
fn block() -> impl Strategy<Value = Value> {
    let text = || {
        (0..6_000_usize, "[ -~é\\n]{0,40}")
            .prop_map(|(n, tail)| format!("{}{tail}", "words and lines\n".repeat(n / 16)))
    };
    prop_oneof![
        4 => text().prop_map(|text| json!({ "type": "text", "text": text })),
        1 => text().prop_map(|text| {
            json!({ "type": "text", "text": text, "annotations": { "priority": 0.5 } })
        }),
        1 => Just(json!({ "type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png" })),
        2 => "[a-z]{1,9}".prop_map(|name| {
            json!({ "type": "resource_link", "uri": format!("file:///{name}"), "name": name })
        }),
        1 => text().prop_map(|text| {
            json!({ "type": "resource", "resource": { "uri": "file:///r", "text": text } })
        }),
        1 => Just(json!({ "type": "unknown", "x": [1, 2] })),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_leaves_a_result_is_stored_and_the_rest_stays(
        content in proptest::collection::vec(block(), 0..40),
        structured in proptest::option::of((0..3_000_usize).prop_map(|n| json!({ "n": vec![1; n] }))),
    ) {
        let reducer = reducer();
        let mut result = json!({ "content": content, "_meta": { "x": 1.5 } });
        if let Some(structured) = &structured {
            result["structuredContent"] = structured.clone();
        }
        let Some(new) = reduced(&reducer, &result) else { return Ok(()) };
        prop_assert_eq!(&new["_meta"], &result["_meta"]);
        let kept = new["content"].as_array().unwrap();
        let media = |content: &[Value]| content.iter().filter(|b| b["type"] == "image").count();
        prop_assert_eq!(media(kept), media(&content));
        // All that any view leads to, and all that still stands.
        let mut all = new.to_string();
        let mut texts = Vec::new();
        let views = kept.iter().flat_map(|b| [&b["text"], &b["resource"]["text"]]);
        for view in views.chain([&new["structuredContent"]["view"]]).filter_map(Value::as_str) {
            if view.starts_with("[overspill: ") {
                texts.push(payload(&reducer, view));
            } else {
                texts.push(view.to_owned());
            }
        }
        all.push_str(&texts.concat());
        for block in &content {
            let spelled = block.to_string();
            let text = block["text"].as_str().or(block["resource"]["text"].as_str());
            let is_there = all.contains(&spelled)
                || text.is_some_and(|text| texts.iter().any(|held| held.contains(text)));
            prop_assert!(is_there, "{}", spelled);
        }
        if let Some(structured) = structured {
            prop_assert!(all.contains(&structured.to_string()));
        }
        // A block that stays keeps its place among those that stay.
        let stays: Vec<&Value> = kept.iter().filter(|block| content.contains(block)).collect();
        let mut rest = content.iter();
        prop_assert!(stays.iter().all(|block| rest.any(|other| other == *block)));
    }
}
