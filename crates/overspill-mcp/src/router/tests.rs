//! Messages in, effects out.

use overspill::Config;
use overspill::summary::NoModel;
use overspill_store::MemoryStore;
use proptest::prelude::*;

use super::*;

fn reducer(config: Config) -> Arc<Reducer> {
    let store = Arc::new(MemoryStore::default());
    Arc::new(Reducer::new(config, store, Arc::new(NoModel::because("no")), "run".into()).unwrap())
}

fn router(names: &[&str]) -> Router {
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    Router::new(names, reducer(Config::default()), false)
}

fn message(text: &str) -> Message {
    Message::one(text.to_owned()).unwrap()
}

/// Effects, one a line: where to, and what.
fn shown(effects: &[Effect]) -> String {
    let lines = effects.iter().map(|effect| match effect {
        Effect::ToServer { server, text, mark: Mark::Plain } => format!("server {server} < {text}"),
        Effect::ToServer { server, text, mark } => format!("server {server} < {mark:?} {text}"),
        Effect::ToClient { text, .. } => format!("client < {text}"),
        Effect::Log(what) => format!("log < {what}"),
        other => format!("{other:?}"),
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn client(router: &mut Router, text: &str) -> String {
    shown(&router.client_sent(message(text)))
}

fn server(router: &mut Router, server: usize, text: &str) -> String {
    shown(&router.server_sent(server, message(text), None))
}

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}"#;

/// Opens a session with servers that have these capabilities.
fn opened(names: &[&str], capabilities: &[&str]) -> Router {
    let mut router = router(names);
    let effects = router.client_sent(message(INITIALIZE));
    for effect in effects {
        let Effect::ToServer { server: of, text, .. } = effect else { continue };
        let Kind::Request { id, .. } = message(&text).kind().clone() else { panic!("{text}") };
        let result =
            format!(r#"{{"protocolVersion":"2025-06-18","capabilities":{}}}"#, capabilities[of]);
        server(&mut router, of, &response(&id, &result));
    }
    router
}

#[test]
fn a_single_server_is_spoken_to_as_if_nobody_stood_between() {
    let mut router = router(&["s"]);
    let call = r#"{"jsonrpc":"2.0", "id":1.0,"method":"prompts/get","params":{"x":1e2},"z":[]}"#;
    assert_eq!(client(&mut router, call), format!("server 0 < {call}"));
    let answer = r#"{ "id" : 1, "result":{"content":[ ],"n":2.50},"jsonrpc":"2.0"}"#;
    assert_eq!(server(&mut router, 0, answer), format!("client < {answer}"));
    let ask = r#"{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{}}"#;
    assert_eq!(server(&mut router, 0, ask), format!("client < {ask}"));
    let answer = r#"{"jsonrpc":"2.0","id":1,"result":{"role":"assistant"}}"#;
    assert_eq!(client(&mut router, answer), format!("server 0 < {answer}"));
    let told = r#"{"jsonrpc":"2.0","method":"notifications/what/ever"}"#;
    assert_eq!(server(&mut router, 0, told), format!("client < {told}"));
    assert_eq!(client(&mut router, told), format!("server 0 < {told}"));
}

#[test]
fn an_answer_under_the_id_as_another_type_is_the_calls_and_takes_its_spelling() {
    for (asked, answered) in [("52", r#""52""#), (r#""52""#, "52"), ("52.0", r#""52""#)] {
        let mut router = router(&["s"]);
        let call = format!(r#"{{"id":{asked},"method":"tools/call","params":{{"name":"t"}}}}"#);
        client(&mut router, &call);
        let body = format!(r#""result":{{"content":[{{"text":"{}"}}]}}"#, "x".repeat(20_000));
        let effects =
            router.server_sent(0, message(&format!(r#"{{"id":{answered},{body}}}"#)), None);
        let [Effect::Reduce { message, answers, .. }] = &effects[..] else { panic!("{effects:?}") };
        assert_eq!(message.text(), format!(r#"{{"id":{asked},{body}}}"#));
        assert_eq!(answers.as_json(), asked);
    }
    // Where both wait, each has its own.
    let mut router = router(&["s"]);
    for id in ["1", r#""1""#] {
        client(&mut router, &format!(r#"{{"id":{id},"method":"prompts/get"}}"#));
    }
    for id in [r#""1""#, "1"] {
        let answer = format!(r#"{{"id":{id},"result":{{}}}}"#);
        assert_eq!(server(&mut router, 0, &answer), format!("client < {answer}"));
    }
}

#[test]
fn a_second_answer_to_one_call_is_dropped() {
    let mut router = router(&["s"]);
    client(&mut router, r#"{"id":1,"method":"tools/call","params":{"name":"t"}}"#);
    let result = format!(r#"{{"content":[{{"text":"{}"}}]}}"#, "x".repeat(20_000));
    let answer = |id: &str| format!(r#"{{"id":{id},"result":{result}}}"#);
    assert!(server(&mut router, 0, &answer("1")).starts_with("Reduce"));
    for id in ["1", r#""1""#, "2"] {
        assert_eq!(
            server(&mut router, 0, &answer(id)),
            "log < s answered a request that nobody has open; the answer is dropped"
        );
    }
}

#[test]
fn the_read_tool_is_listed_last_and_keeps_its_name_unless_it_is_taken() {
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let mut router = router(&["s"]);
    client(&mut router, list);
    let page = r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"read_tool_result"}],"nextCursor":"2"}}"#;
    assert_eq!(server(&mut router, 0, page), format!("client < {page}"));
    let next = r#"{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"cursor":"2"}}"#;
    client(&mut router, next);
    let page = r#"{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"b"}]}}"#;
    let last = server(&mut router, 0, page);
    assert!(last.contains(r#"{"name":"b"},{"name":"overspill_read_tool_result","#), "{last}");
    let call = r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"overspill_read_tool_result","arguments":{"handle":"h"}}}"#;
    assert!(client(&mut router, call).starts_with("ReadTool"));
    let call =
        r#"{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"read_tool_result"}}"#;
    assert_eq!(client(&mut router, call), format!("server 0 < {call}"));
}

#[test]
fn a_tool_of_the_servers_that_has_the_read_tools_name_is_the_servers() {
    let call = |arguments: &str| {
        format!(
            r#"{{"id":1,"method":"tools/call","params":{{"name":"read_tool_result","arguments":{arguments}}}}}"#
        )
    };
    let ours = call(&format!(r#"{{"handle":"run/call.{}"}}"#, "a".repeat(26)));
    let theirs = call(r#"{"path":"x"}"#);
    let mut router = router(&["s"]);
    assert!(client(&mut router, &ours).starts_with("ReadTool"));
    assert_eq!(client(&mut router, &theirs), format!("server 0 < {theirs}"));
    // Once tools are listed, their names say whose is whose.
    client(&mut router, r#"{"id":2,"method":"tools/list"}"#);
    server(&mut router, 0, &response(&Id::of("2"), r#"{"tools":[]}"#));
    assert!(client(&mut router, &theirs).starts_with("ReadTool"));
    client(&mut router, r#"{"id":3,"method":"tools/list"}"#);
    let tools = r#"{"tools":[{"name":"read_tool_result"}]}"#;
    server(&mut router, 0, &response(&Id::of("3"), tools));
    assert_eq!(client(&mut router, &theirs), format!("server 0 < {theirs}"));
}

#[test]
fn what_is_stored_is_a_resource_even_of_a_server_without_any() {
    let mut router = opened(&["s"], &[r#"{"tools":{}}"#]);
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"resources/templates/list"}"#;
    let listed = client(&mut router, list);
    assert!(listed.contains("overspill://{+handle}"), "{listed}");
    let list = r#"{"jsonrpc":"2.0","id":2,"method":"resources/list"}"#;
    assert_eq!(
        client(&mut router, list),
        r#"client < {"jsonrpc":"2.0","id":2,"result":{"resources":[]}}"#
    );
    let read =
        r#"{"jsonrpc":"2.0","id":3,"method":"resources/read","params":{"uri":"overspill://h"}}"#;
    assert!(client(&mut router, read).starts_with("ReadResource"));
}

#[test]
fn lists_of_the_proxy_say_their_type_to_clients_of_the_revision_that_wants_it() {
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#;
    let list = format!(r#"{{"id":2,"method":"resources/list","params":{{{meta}}}}}"#);
    let discover = r#"{"id":1,"method":"server/discover"}"#;
    let mut single = router(&["s"]);
    client(&mut single, discover);
    server(&mut single, 0, r#"{"id":1,"result":{"capabilities":{"tools":{}}}}"#);
    let mut many = opened(&["a", "b"], &[r#"{"tools":{}}"#, "{}"]);
    let listed = r#"client < {"jsonrpc":"2.0","id":2,"result":{"resources":[],"resultType":"complete","ttlMs":0,"cacheScope":"private"}}"#;
    assert_eq!(client(&mut single, &list), listed);
    assert_eq!(client(&mut many, &list), listed);
    let read = format!(
        r#"{{"id":3,"method":"tools/call","params":{{"name":"read_tool_result","arguments":{{"handle":"run/call.{}"}},{meta}}}}}"#,
        "a".repeat(26)
    );
    assert!(client(&mut single, &read).contains("form: Typed"));
}

#[test]
fn a_result_under_the_smallest_band_passes_and_a_bigger_one_is_looked_at() {
    let mut router = router(&["s"]);
    for (id, chars) in [(1, 9_000), (2, 11_000)] {
        let call = format!(r#"{{"id":{id},"method":"tools/call","params":{{"name":"t"}}}}"#);
        client(&mut router, &call);
        let text = "x".repeat(chars);
        let answer =
            format!(r#"{{"id":{id},"result":{{"content":[{{"type":"text","text":"{text}"}}]}}}}"#);
        let effects = router.server_sent(0, message(&answer), None);
        let is_looked_at = matches!(
            effects.as_slice(),
            [Effect::Reduce { job: Job::Tool(tool), .. }] if tool == "t"
        );
        assert_eq!(is_looked_at, chars > 10_000);
        assert!(is_looked_at || shown(&effects) == format!("client < {answer}"));
    }
}

#[test]
fn a_server_that_is_gone_leaves_no_call_open() {
    let mut router = router(&["s"]);
    client(&mut router, r#"{"id":7,"method":"tools/call","params":{"name":"t"}}"#);
    server(&mut router, 0, r#"{"id":"q","method":"roots/list"}"#);
    let effects = shown(&router.server_gone(0, "s ended (exit status: 3)"));
    assert_eq!(
        effects,
        "client < {\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":-32603,\"message\":\"s ended (exit status: 3)\"}}\n\
         client < {\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":\"q\",\"reason\":\"s ended (exit status: 3)\"}}"
    );
    assert!(router.server_gone(0, "again").is_empty());
    let late = client(&mut router, r#"{"id":"q","result":{"roots":[]}}"#);
    assert!(late.starts_with("log < "), "{late}");
}

#[test]
fn a_cancelled_call_may_be_answered_all_the_same() {
    let mut router = router(&["s"]);
    client(&mut router, r#"{"id":7,"method":"tools/call","params":{"name":"t"}}"#);
    let cancel = r#"{"method":"notifications/cancelled","params":{"requestId":7}}"#;
    let effects = router.client_sent(message(cancel));
    assert!(matches!(&effects[0], Effect::Abandoned { id } if id.as_json() == "7"));
    assert_eq!(shown(&effects[1..]), format!("server 0 < {cancel}"));
    // A server that is gone answers nothing of what was cancelled.
    assert!(router.server_gone(0, "gone").is_empty());
}

#[test]
fn progress_is_about_the_call_that_gave_its_token() {
    let mut router = router(&["s"]);
    client(
        &mut router,
        r#"{"id":7,"method":"tools/call","params":{"name":"t","_meta":{"progressToken":"p"}}}"#,
    );
    let progress =
        r#"{"method":"notifications/progress","params":{"progressToken":"p","progress":1}}"#;
    let effects = router.server_sent(0, message(progress), None);
    assert!(matches!(
        &effects[..],
        [Effect::ToClient { related: Some(id), .. }] if id.as_json() == "7"
    ));
}

#[test]
fn several_servers_are_one_with_the_oldest_revision() {
    let mut router = router(&["a", "b"]);
    let effects = router.client_sent(message(INITIALIZE));
    assert!(matches!(effects.last(), Some(Effect::Deadline { .. })));
    let first = r#"{"id":"overspill:2","result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},"instructions":"Be kind."}}"#;
    assert_eq!(server(&mut router, 0, first), "");
    let second = r#"{"id":"overspill:3","result":{"protocolVersion":"2024-11-05","capabilities":{"tools":{},"prompts":{}}}}"#;
    let answer = server(&mut router, 1, second);
    assert!(answer.contains(r#""protocolVersion":"2024-11-05""#), "{answer}");
    assert!(answer.contains(r#""tools":{"listChanged":true}"#), "{answer}");
    assert!(answer.contains(r#""prompts":{}"#) && answer.contains("a: Be kind."), "{answer}");
}

#[test]
fn lists_of_several_servers_are_joined_page_by_page() {
    let mut router = opened(&["a", "b"], &[r#"{"tools":{}}"#, r#"{"tools":{}}"#]);
    let effects = router.client_sent(message(r#"{"id":1,"method":"tools/list"}"#));
    let ids: Vec<Id> = effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::ToServer { text, .. } => match message(text).kind() {
                Kind::Request { id, .. } => Some(id.clone()),
                _ => None,
            },
            _ => None,
        })
        .collect();
    server(&mut router, 1, &response(&ids[1], r#"{"tools":[{"name":"y"}]}"#));
    let page = response(&ids[0], r#"{"tools":[{"name":"x","n":1.0}],"nextCursor":"more"}"#);
    let answer = server(&mut router, 0, &page);
    assert!(answer.contains(r#"[{"name":"a__x","n":1.0},{"name":"b__y"}]"#), "{answer}");
    assert!(!answer.contains("read_tool_result"), "{answer}");
    let answer = message(answer.strip_prefix("client < ").unwrap());
    let (_, cursor) = listing::page(answer.result().unwrap(), ListOf::Tools);
    let next = format!(
        r#"{{"id":2,"method":"tools/list","params":{{"cursor":{}}}}}"#,
        quote(&cursor.unwrap())
    );
    let effects = router.client_sent(message(&next));
    let [Effect::ToServer { server: 0, text, .. }, Effect::Deadline { .. }] = &effects[..] else {
        panic!("{effects:?}")
    };
    assert!(text.contains(r#"{"cursor":"more"}"#), "{text}");
    let Kind::Request { id, .. } = message(text).kind().clone() else { panic!("{text}") };
    let answer = server(&mut router, 0, &response(&id, r#"{"tools":[]}"#));
    assert!(answer.contains(r#""name":"read_tool_result""#), "{answer}");
}

/// What servers answer a list with, in that order; what is shown of it.
fn listed(router: &mut Router, method: &str, results: &[(usize, &str)]) -> String {
    let effects = router.client_sent(message(&format!(r#"{{"id":1,"method":"{method}"}}"#)));
    let mut asked: BTreeMap<usize, Id> = BTreeMap::new();
    for effect in effects {
        let Effect::ToServer { server, text, .. } = effect else { continue };
        let Kind::Request { id, .. } = message(&text).kind().clone() else { panic!("{text}") };
        asked.insert(server, id);
    }
    let last =
        results.iter().map(|(of, result)| server(router, *of, &response(&asked[of], result)));
    last.last().unwrap_or_default()
}

#[test]
fn a_resource_of_two_servers_is_the_first_ones_whichever_lists_it_first() {
    let resources = r#"{"resources":{}}"#;
    let mut router = opened(&["a", "b"], &[resources, resources]);
    let page = r#"{"resources":[{"uri":"file:///x"},{"uri":"file:///y"}]}"#;
    let (none, more) = (r#"{"resources":[]}"#, r#"{"resources":[],"nextCursor":"2"}"#);
    listed(&mut router, "resources/list", &[(0, more), (1, page)]);
    let both = listed(&mut router, "resources/list", &[(1, none), (0, page)]);
    let note = "log < a and b have the resource file:///x; it is read from a";
    assert_eq!(both.lines().filter(|line| line.starts_with("log < ")).collect::<Vec<_>>(), [note]);
    let again = listed(&mut router, "resources/list", &[(1, page), (0, page)]);
    assert!(!again.contains("log < "), "{again}");
    let read = r#"{"id":1,"method":"resources/read","params":{"uri":"file:///y"}}"#;
    assert_eq!(client(&mut router, read), format!("server 0 < {read}"));
}

#[test]
fn a_name_that_a_prefix_makes_too_long_is_told_of_once() {
    let mut router = opened(&["a", "b"], &[r#"{"tools":{}}"#, "{}"]);
    let (fits, long) = ("x".repeat(61), "y".repeat(62));
    let page = format!(r#"{{"tools":[{{"name":"{fits}"}},{{"name":"{long}"}}]}}"#);
    let first = listed(&mut router, "tools/list", &[(0, &page)]);
    assert!(first.starts_with(&format!("log < a__{long} has more than 64 characters")), "{first}");
    assert!(first.contains(&format!("\"a__{long}\"")), "{first}");
    assert!(!listed(&mut router, "tools/list", &[(0, &page)]).contains("log < "));
}

#[test]
fn a_call_reaches_the_server_its_prefix_names() {
    let mut router = opened(&["a", "b"], &["{}", "{}"]);
    let call = r#"{"id":1,"method":"tools/call","params":{"x":1.0,"name":"b__y"}}"#;
    assert_eq!(
        client(&mut router, call),
        r#"server 1 < {"id":1,"method":"tools/call","params":{"x":1.0,"name":"y"}}"#
    );
    let answer = r#"{"id":1,"result":{"content":[]}}"#;
    assert_eq!(server(&mut router, 1, answer), format!("client < {answer}"));
    let unknown = client(&mut router, r#"{"id":2,"method":"tools/call","params":{"name":"z"}}"#);
    assert!(unknown.contains("Unknown tool: z"), "{unknown}");
}

#[test]
fn a_cancelled_call_is_cancelled_where_it_is() {
    let mut router = opened(&["a", "b"], &["{}", "{}"]);
    client(&mut router, r#"{"id":1,"method":"tools/call","params":{"name":"b__y"}}"#);
    let cancel = r#"{"method":"notifications/cancelled","params":{"requestId":1}}"#;
    let effects = router.client_sent(message(cancel));
    assert_eq!(shown(&effects[1..]), format!("server 1 < {cancel}"));
}

#[test]
fn requests_of_several_servers_are_told_apart() {
    let mut router = opened(&["a", "b"], &["{}", "{}"]);
    let ask = r#"{"id":1,"method":"roots/list","params":{"_meta":{"progressToken":5}}}"#;
    let known: Vec<Message> = (0..2)
        .map(|of| {
            let text = server(&mut router, of, ask);
            message(text.strip_prefix("client < ").unwrap())
        })
        .collect();
    let ids: Vec<Id> = known
        .iter()
        .map(|message| match message.kind() {
            Kind::Request { id, .. } => id.clone(),
            _ => panic!("{message:?}"),
        })
        .collect();
    assert_ne!(ids[0], ids[1]);
    let token = Members::of(known[1].params()).unwrap().object("_meta").unwrap();
    let progress = format!(
        r#"{{"method":"notifications/progress","params":{{"progressToken":{},"progress":1}}}}"#,
        token.get("progressToken").unwrap()
    );
    assert_eq!(
        client(&mut router, &progress),
        r#"server 1 < {"method":"notifications/progress","params":{"progressToken":5,"progress":1}}"#
    );
    assert_eq!(
        client(&mut router, &response(&ids[1], r#"{"roots":[]}"#)),
        r#"server 1 < {"jsonrpc":"2.0","id":1,"result":{"roots":[]}}"#
    );
}

#[test]
fn one_server_that_fails_does_not_take_the_others_down() {
    let mut router = router(&["a", "b"]);
    router.client_sent(message(INITIALIZE));
    router.server_gone(0, "a cannot be started");
    let answer = r#"{"id":"overspill:3","result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}}}}"#;
    let effects = server(&mut router, 1, answer);
    assert!(effects.contains("client < ") && effects.contains("log < a cannot"), "{effects}");
    let list = client(&mut router, r#"{"id":1,"method":"tools/list"}"#);
    assert!(list.starts_with("server 1 < ") && !list.contains("server 0"), "{list}");
}

#[test]
fn a_server_that_takes_its_time_joins_later() {
    let mut router = router(&["a", "b"]);
    let effects = router.client_sent(message(INITIALIZE));
    let Some(Effect::Deadline { gather }) = effects.last() else { panic!("{effects:?}") };
    let answer =
        r#"{"id":"overspill:3","result":{"protocolVersion":"2025-06-18","capabilities":{}}}"#;
    server(&mut router, 1, answer);
    assert!(shown(&router.deadline(*gather)).contains("client < "));
    client(&mut router, r#"{"method":"notifications/initialized"}"#);
    let late = r#"{"id":"overspill:2","result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}}}}"#;
    let effects = server(&mut router, 0, late);
    assert!(effects.contains("server 0 < Initialized"), "{effects}");
    assert!(effects.contains("notifications/tools/list_changed"), "{effects}");
}

/// What servers are asked, each with the id it knows the request by.
fn asked(effects: &[Effect]) -> Vec<(usize, Id)> {
    let of = |effect: &Effect| match effect {
        Effect::ToServer { server, text, .. } => Some((*server, message(text).request_id()?)),
        _ => None,
    };
    effects.iter().filter_map(of).collect()
}

const READ: &str = r#"{"id":1,"method":"resources/read","params":{"uri":"file:///x"}}"#;

/// A session with servers of which the first and the last have resources, which are asked for one.
fn reading() -> (Router, Id, Id) {
    let resources = r#"{"resources":{}}"#;
    let mut router = opened(&["a", "b", "c"], &[resources, "{}", resources]);
    let asked = asked(&router.client_sent(message(READ)));
    let [(0, first), (2, last)] = &asked[..] else { panic!("{asked:?}") };
    (router, first.clone(), last.clone())
}

#[test]
fn who_has_a_resource_answers_even_where_another_hangs() {
    let (mut router, first, last) = reading();
    let effects = server(&mut router, 2, &response(&last, r#"{"contents":[]}"#));
    let cancelled = format!(
        r#"server 0 < {{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{}"#,
        first.as_json()
    );
    assert!(effects.starts_with(&cancelled), "{effects}");
    assert!(effects.ends_with(r#"client < {"jsonrpc":"2.0","id":1,"result":{"contents":[]}}"#));
    // What the other says all the same is one answer too many.
    assert_eq!(server(&mut router, 0, &response(&first, r#"{"contents":[1]}"#)), "");
}

#[test]
fn where_nobody_has_a_resource_the_error_says_most() {
    let error = |id: &Id, code: i32| {
        format!(r#"{{"id":{},"error":{{"code":{code},"message":"{code}"}}}}"#, id.as_json())
    };
    for codes in [[-32601, -32002], [-32002, -32601]] {
        let (mut router, first, last) = reading();
        assert_eq!(server(&mut router, 0, &error(&first, codes[0])), "");
        assert_eq!(
            server(&mut router, 2, &error(&last, codes[1])),
            r#"client < {"jsonrpc":"2.0","id":1,"error":{"code":-32002,"message":"-32002"}}"#
        );
    }
    let (mut router, first, _) = reading();
    assert_eq!(server(&mut router, 0, &error(&first, -32002)), "");
    assert!(shown(&router.server_gone(2, "c ended")).contains(r#""code":-32002"#));
}

#[test]
fn what_no_server_is_known_for_is_asked_of_one_after_another() {
    let mut router = opened(&["a", "b"], &["{}", "{}"]);
    let effects = router.client_sent(message(r#"{"id":1,"method":"own/method"}"#));
    let [(0, first)] = &asked(&effects)[..] else { panic!("{effects:?}") };
    let unknown = format!(r#"{{"id":{},"error":{{"code":-32601}}}}"#, first.as_json());
    let effects = router.server_sent(0, message(&unknown), None);
    let [(1, second)] = &asked(&effects)[..] else { panic!("{effects:?}") };
    assert_eq!(
        server(&mut router, 1, &response(second, "{}")),
        r#"client < {"jsonrpc":"2.0","id":1,"result":{}}"#
    );
}

#[test]
fn a_call_to_several_servers_is_cancelled_at_all_of_them() {
    let (mut router, first, last) = reading();
    let cancel = r#"{"method":"notifications/cancelled","params":{"requestId":1}}"#;
    let effects = shown(&router.client_sent(message(cancel))[1..]);
    for id in [first, last] {
        assert!(effects.contains(&format!(r#""requestId":{}"#, id.as_json())), "{effects}");
        assert!(!server(&mut router, 0, &response(&id, "{}")).contains("client <"));
    }
}

#[test]
fn a_list_does_not_wait_for_a_server_that_hangs() {
    let mut router = opened(&["a", "b"], &[r#"{"tools":{}}"#, r#"{"tools":{}}"#]);
    let list = |router: &mut Router| {
        let effects = router.client_sent(message(r#"{"id":1,"method":"tools/list"}"#));
        let Some(Effect::Deadline { gather }) = effects.last() else { panic!("{effects:?}") };
        let ids = asked(&effects);
        server(router, 1, &response(&ids[1].1, r#"{"tools":[{"name":"y"}]}"#));
        (*gather, ids[0].1.clone())
    };
    let tools = r#"{"tools":[{"name":"x"}]}"#;
    for is_first in [true, false] {
        let (gather, hanging) = list(&mut router);
        let answer = shown(&router.deadline(gather));
        assert!(answer.contains("b__y") && !answer.contains("a__x"), "{answer}");
        assert!(answer.contains("log < a: it has not answered yet"), "{answer}");
        // The client is told to ask again, but not over and over.
        let late = server(&mut router, 0, &response(&hanging, tools));
        assert_eq!(late.contains("notifications/tools/list_changed"), is_first, "{late}");
    }
    let (_, in_time) = list(&mut router);
    assert!(server(&mut router, 0, &response(&in_time, tools)).contains("a__x"));
    let (gather, hanging) = list(&mut router);
    router.deadline(gather);
    assert!(server(&mut router, 0, &response(&hanging, tools)).contains("list_changed"));
}

/// A call whose arguments are being looked up.
fn held() -> (Router, Id) {
    let config = "[mcp]\nhandle_arguments = [\"*\"]\n";
    let reducer = reducer(Config::parse("overspill.toml", config).unwrap());
    let mut router = Router::new(vec!["s".to_owned()], reducer, false);
    let call = r#"{"id":1,"method":"tools/call","params":{"name":"t","arguments":{"a":{"$overspill":"h"}}}}"#;
    let effects = router.client_sent(message(call));
    let [Effect::Substitute { id, .. }] = &effects[..] else { panic!("{effects:?}") };
    (router, id.clone())
}

#[test]
fn a_call_that_is_cancelled_before_it_is_made_is_not_made() {
    let (mut router, id) = held();
    let cancel = r#"{"method":"notifications/cancelled","params":{"requestId":1}}"#;
    let effects = router.client_sent(message(cancel));
    assert!(matches!(&effects[..], [Effect::Abandoned { .. }]), "{effects:?}");
    assert!(!router.is_wanted(0, &id, true));

    // Where the server is gone meanwhile, that is the answer.
    let (mut router, id) = held();
    assert!(shown(&router.server_gone(0, "gone")).contains("client < "));
    assert!(!router.is_wanted(0, &id, true));

    // One that is made is cancelled at the server.
    let (mut router, id) = held();
    assert!(router.is_wanted(0, &id, true));
    assert!(shown(&router.client_sent(message(cancel))).contains("server 0 < "));
}

#[test]
fn a_server_that_is_started_again_hears_what_it_has_forgotten() {
    let resources = r#"{"resources":{"subscribe":true},"logging":{}}"#;
    for names in [&["a"][..], &["a", "b"]] {
        let mut router = opened(names, &[resources, "{}"]);
        let level = r#"{"id":1,"method":"logging/setLevel","params":{"level":"debug"}}"#;
        client(&mut router, level);
        for uri in ["x", "y"] {
            let id = router.fresh();
            let params = format!(r#"{{"uri":"{uri}"}}"#);
            for method in ["resources/subscribe", "resources/unsubscribe"] {
                if method == "resources/unsubscribe" && uri == "x" {
                    continue;
                }
                let (id, params) = (id.as_json(), params.as_str());
                client(
                    &mut router,
                    &format!(r#"{{"id":{id},"method":"{method}","params":{params}}}"#),
                );
            }
        }
        assert!(router.reopens(0));
        router.server_gone(0, "gone");
        let (id, _) = router.reopening(0, &message(INITIALIZE));
        let result = format!(r#"{{"capabilities":{resources}}}"#);
        assert_eq!(server(&mut router, 0, &response(&id, &result)), "");
        let again = router.again(0);
        let [level, subscribe] = &again[..] else { panic!("{again:?}") };
        assert!(level.contains(r#""method":"logging/setLevel""#), "{level}");
        assert!(subscribe.contains(r#""uri":"x""#), "{subscribe}");
        for text in &again {
            let id = message(text).request_id().unwrap();
            assert_eq!(server(&mut router, 0, &response(&id, "{}")), "", "{text}");
        }
    }
}

#[test]
fn a_server_that_could_not_be_opened_joins_when_it_can() {
    let mut router = router(&["a", "b"]);
    let effects = router.client_sent(message(INITIALIZE));
    let asked = asked(&effects);
    assert!(router.reopens(0));
    router.server_gone(0, "a ended");
    let result = r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}}}"#;
    // While another is still waited for, it is one of those that answer together.
    let (id, _) = router.reopening(0, &message(INITIALIZE));
    assert_eq!(server(&mut router, 0, &response(&id, result)), "");
    let opened = r#"{"protocolVersion":"2025-06-18","capabilities":{}}"#;
    let answer = server(&mut router, 1, &response(&asked[1].1, opened));
    assert!(answer.starts_with("client < ") && answer.contains(r#""tools":{}"#), "{answer}");

    let mut router = self::opened(&["a", "b"], &["{}", "{}"]);
    router.capabilities[0] = None;
    let (id, _) = router.reopening(0, &message(INITIALIZE));
    let answer = server(&mut router, 0, &response(&id, result));
    assert!(answer.contains("notifications/tools/list_changed"), "{answer}");
    // A single server that never was open is opened by the client.
    assert!(!self::router(&["s"]).reopens(0));
}

#[test]
fn what_one_client_stored_is_not_listed_for_another() {
    let receipts = {
        use overspill::{ToolCall, ToolReturn};
        let reducer = reducer(Config::default());
        let text = "line\n".repeat(20_000);
        let call = ToolCall::new("run", "t", "t");
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let done = runtime.block_on(reducer.limits().admit(&call, ToolReturn::from(text)));
        done.receipts().cloned().collect::<Vec<_>>()
    };
    for is_shared in [false, true] {
        let mut router = Router::new(vec!["s".to_owned()], reducer(Config::default()), is_shared);
        client(&mut router, INITIALIZE);
        server(&mut router, 0, &response(&Id::of("0"), r#"{"capabilities":{}}"#));
        router.stored(&receipts);
        let list = client(&mut router, r#"{"id":1,"method":"resources/list"}"#);
        assert_eq!(list.contains("overspill://"), !is_shared, "{list}");
    }
}

proptest! {
    #[test]
    fn every_request_is_answered_once_under_its_own_id(
        ids in proptest::collection::vec(prop_oneof![
            (0..5_i64).prop_map(|id| id.to_string()),
            "[a-c]{1,2}".prop_map(|id| format!("\"{id}\"")),
        ], 1..12),
        order in proptest::collection::vec(any::<prop::sample::Index>(), 12),
        dies in any::<bool>(),
    ) {
        let mut router = opened(&["a", "b"], &["{}", "{}"]);
        let mut open: Vec<(usize, Id)> = Vec::new();
        for (i, id) in ids.iter().enumerate() {
            let id = Id::of(id);
            // An id is used again only once it is free.
            if open.iter().any(|(_, held)| *held == id) {
                continue;
            }
            let to = i % 2;
            let name = ["a__t", "b__t"][to];
            let call = format!(
                r#"{{"id":{},"method":"tools/call","params":{{"name":"{name}"}}}}"#,
                id.as_json()
            );
            let effects = router.client_sent(message(&call));
            let is_right = matches!(&effects[..], [Effect::ToServer { server, .. }] if *server == to);
            prop_assert!(is_right);
            open.push((to, id));
        }
        let mut answered = Vec::new();
        let mut left = open.clone();
        for at in order {
            if left.len() < 2 {
                break;
            }
            let (of, id) = left.swap_remove(at.index(left.len()));
            let effects = router.server_sent(of, message(&response(&id, r#"{"content":[]}"#)), None);
            let [Effect::ToClient { answers: Some(id), .. }] = &effects[..] else {
                panic!("{effects:?}");
            };
            answered.push(id.clone());
        }
        if dies {
            for of in 0..2 {
                for effect in router.server_gone(of, "gone") {
                    let Effect::ToClient { answers: Some(id), .. } = effect else { continue };
                    answered.push(id);
                }
            }
            prop_assert_eq!(answered.len(), open.len());
        }
        for id in &answered {
            prop_assert!(open.iter().any(|(_, held)| held == id));
        }
    }
}
