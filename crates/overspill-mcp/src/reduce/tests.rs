//! A result in, what the client gets out.

use overspill::store::Stored;
use overspill::summary::NoModel;
use overspill_store::MemoryStore;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

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
    let handle = overspill::Marker::handles(view).next().unwrap();
    block_on(async {
        let stored = Stored::open(reducer.store(), &handle).await.unwrap();
        let bytes = stored.bytes(0..stored.receipt().bytes).await.unwrap();
        String::from_utf8(bytes.to_vec()).unwrap()
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
fn what_is_no_result_yet_passes() {
    let reducer = reducer();
    let text = lines(1_000);
    for result in [
        json!({ "resultType": "input_required", "content": [{ "type": "text", "text": text }] }),
        json!({ "resultType": "task", "content": [{ "type": "text", "text": text }] }),
        json!({ "task": { "taskId": "1" }, "content": [{ "type": "text", "text": text }] }),
        json!({ "content": "no list", "x": text }),
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
    let new = block_on(reducer.resource_result(&result)).result.unwrap();
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
