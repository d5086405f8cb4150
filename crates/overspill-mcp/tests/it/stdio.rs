//! Over standard input and output.

use std::sync::Arc;

use overspill::Config;
use overspill_mcp::{Options, Proxy, Server};
use overspill_store::MemoryStore;
use serde_json::{Value, json};

use crate::client::{Said, connect, handle, proxy, read_back, text, within};
use crate::peer::{self, lines, process};

#[tokio::test(flavor = "multi_thread")]
async fn a_long_result_is_stored_and_read_back_whole() {
    let connected = connect(proxy(&[("s", process())], "", &Said::default())).await;
    let tools = within(connected.client.list_all_tools()).await.unwrap();
    assert_eq!(tools.last().unwrap().name, "read_tool_result");

    let short = connected.call("lines", json!({ "n": 100 })).await.unwrap();
    assert_eq!(text(&short), lines(100));

    let long = connected.call("lines", json!({ "n": 20_000 })).await.unwrap();
    let view = text(&long);
    assert!(view.starts_with("[overspill: ") && view.len() < 2_500, "{view}");
    assert_eq!(read_back(&connected.client, "read_tool_result", &view).await, lines(20_000));
    connected.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn spilled_structured_content_fits_the_schema_that_is_listed() {
    let connected = connect(proxy(&[("s", process())], "", &Said::default())).await;
    let tools = within(connected.client.list_all_tools()).await.unwrap();
    let tool = tools.iter().find(|tool| tool.name == "structured").unwrap();
    let schema = Value::Object(tool.output_schema.as_deref().cloned().unwrap());
    assert_eq!(schema["anyOf"][0]["required"], json!(["rows"]));
    assert_eq!(schema["anyOf"][1]["required"], json!(["$overspill", "view"]));
    let result = connected.call("structured", json!({ "n": 10_000 })).await.unwrap();
    let structured = result.structured_content.clone().unwrap();
    assert_eq!(structured["$overspill"], handle(&text(&result)).as_str());
    assert_eq!(structured["view"], text(&result).as_str());
    connected.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handle_is_an_argument_where_that_is_allowed() {
    for (config, is_allowed) in [("[mcp]\nhandle_arguments = [\"echo\"]", true), ("", false)] {
        let connected = connect(proxy(&[("s", process())], config, &Said::default())).await;
        let view = text(&connected.call("lines", json!({ "n": 20_000 })).await.unwrap());
        let arguments = json!({ "text": { "$overspill": handle(&view) } });
        let answer = connected.call("echo", arguments).await.unwrap();
        if is_allowed {
            assert_eq!(text(&answer), lines(20_000).len().to_string());
            for (value, why) in [
                (json!({ "$overspill": "cut" }), "is no handle"),
                (json!({ "$overspill": null, "view": "x" }), "nothing could be stored"),
                (json!({ "$overspill": handle(&view), "as": "xml" }), "\"as\" is \"xml\""),
                (json!({ "$overspill": handle(&view), "more": 1 }), "\"more\" stands beside"),
            ] {
                let answer = connected.call("echo", json!({ "text": value })).await.unwrap();
                assert_eq!(answer.is_error, Some(true), "{value}");
                let said = text(&answer);
                assert!(said.starts_with("echo was not called: ") && said.contains(why), "{said}");
            }
        } else {
            assert_eq!(answer.is_error, Some(true));
            assert!(text(&answer).contains("takes no handle"), "{}", text(&answer));
        }
        connected.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_stored_is_listed_and_read_as_a_resource() {
    let connected = connect(proxy(&[("s", process())], "", &Said::default())).await;
    let view = text(&connected.call("lines", json!({ "n": 20_000 })).await.unwrap());
    let resources = within(connected.client.list_all_resources()).await.unwrap();
    let uri = format!("overspill://{}", handle(&view));
    assert_eq!(resources[0].uri, uri);
    for (query, expected) in [
        ("bytes=0-9".to_owned(), lines(20_000)[..10].to_owned()),
        ("bytes=100-1000000000".to_owned(), lines(20_000)[100..].to_owned()),
        ("bytes=100-".to_owned(), lines(20_000)[100..].to_owned()),
        ("bytes=-10".to_owned(), lines(20_000)[lines(20_000).len() - 10..].to_owned()),
    ] {
        let params = serde_json::from_value(json!({ "uri": format!("{uri}?{query}") })).unwrap();
        let read = within(connected.client.read_resource(params)).await.unwrap();
        let read = serde_json::to_value(read).unwrap();
        assert_eq!(read["contents"][0]["text"], expected.as_str());
    }
    let params =
        serde_json::from_value(json!({ "uri": format!("{uri}?offset=7&limit=1") })).unwrap();
    let read = serde_json::to_value(within(connected.client.read_resource(params)).await.unwrap());
    let read = read.unwrap();
    assert!(read["contents"][0]["text"].as_str().unwrap().ends_with("line 7 of a long result\n"));
    connected.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn several_servers_are_one() {
    let url = peer::over_http().await;
    let servers = [
        ("near", process()),
        ("gone", overspill_mcp::Transport::command("/nonexistent/server", [""; 0])),
        ("far", overspill_mcp::Transport::http(url)),
    ];
    let said = Said::default();
    let connected = connect(proxy(&servers, "", &said)).await;
    assert!(said.all().contains("gone cannot be started"), "{}", said.all());
    let tools = within(connected.client.list_all_tools()).await.unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_ref()).collect();
    assert!(names.contains(&"near__lines") && names.contains(&"far__lines"), "{names:?}");
    assert_eq!(names.last(), Some(&"read_tool_result"));
    for tool in ["near__lines", "far__lines"] {
        let view = text(&connected.call(tool, json!({ "n": 5_000 })).await.unwrap());
        let whole = read_back(&connected.client, "read_tool_result", &view).await;
        assert_eq!(whole, lines(5_000), "{tool}");
    }
    connected.close().await;
}

#[test]
fn names_of_servers_that_could_give_two_tools_one_name_are_refused() {
    for (names, is_refused) in [
        (["git", "git__hub"], true),
        (["git__hub", "git"], true),
        (["git", "git_"], true),
        (["git", "git_hub"], false),
        (["git__lab", "git__hub"], false),
    ] {
        let mut options = Options::new(Config::default(), Arc::new(MemoryStore::default()));
        options.servers = names
            .iter()
            .map(|name| Server { name: (*name).to_owned(), transport: process() })
            .collect();
        let refused = Proxy::new(options).err().map(|error| error.to_string());
        assert_eq!(refused.is_some(), is_refused, "{names:?}");
        let says = |why: String| names.iter().all(|name| why.contains(&format!("{name:?}")));
        assert!(refused.is_none_or(says));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_too_long_to_hold_is_stored_whole() {
    let connected = connect(proxy(&[("s", process())], "", &Said::default())).await;
    let whole = lines(1_000_000);
    let result = connected.call("lines", json!({ "n": 1_000_000 })).await.unwrap();
    let uri = format!("overspill://{}", handle(&text(&result)));
    let mut read = String::new();
    while read.len() < whole.len() {
        let uri = format!("{uri}?bytes={}-{}", read.len(), whole.len());
        let params = serde_json::from_value(json!({ "uri": uri })).unwrap();
        let part = within(connected.client.read_resource(params)).await.unwrap();
        let part = serde_json::to_value(part).unwrap();
        read.push_str(part["contents"][0]["text"].as_str().unwrap());
    }
    assert!(read == whole);
    connected.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_back_is_an_error_and_what_can_is_none() {
    let connected = connect(proxy(&[("s", process())], "", &Said::default())).await;
    let handle = handle(&text(&connected.call("lines", json!({ "n": 20_000 })).await.unwrap()));
    // From here on it is known that no tool of the server's has the name.
    within(connected.client.list_all_tools()).await.unwrap();
    for (arguments, said) in [
        (json!({ "handle": "run/call.x" }), "No stored result"),
        (json!({ "handle": handle.replace("lines", "others") }), "Nothing is stored as"),
        (json!({ "handle": handle, "offset": -1 }), "`offset` must be"),
        (json!({ "handle": handle, "pattern": "(", "regex": true }), "no regular expression"),
        (json!({ "handle": handle, "json_path": "$.a" }), "JSON"),
        (json!({}), "`handle` is missing"),
    ] {
        let answer = connected.call("read_tool_result", arguments.clone()).await.unwrap();
        assert_eq!(answer.is_error, Some(true), "{arguments}");
        assert!(text(&answer).contains(said), "{}", text(&answer));
    }
    for (arguments, said) in [
        (json!({ "handle": handle }), "lines 0-199 of 20,000"),
        (json!({ "handle": handle, "limit": 5_000 }), "lines 0-999 of 20,000"),
        (json!({ "handle": handle, "offset": 30_000 }), "no lines there"),
        (json!({ "handle": handle, "pattern": "nowhere" }), "0 lines with"),
    ] {
        let answer = connected.call("read_tool_result", arguments).await.unwrap();
        assert!(answer.is_error != Some(true) && text(&answer).contains(said), "{}", text(&answer));
    }
    connected.close().await;
}
