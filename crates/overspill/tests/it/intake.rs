//! What goes in and what the model sees, on the first path.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use overspill::filter::ToolBands;
use overspill::limits::PolicyError;
use overspill::summary::{SummaryError, summarizer};
use overspill::{
    Action, Admitted, Band, Bands, Keep, Marker, Media, Payload, Spill, Summarize, Summary,
    Tokenizer, ToolCall, ToolFilter, ToolOutputLimits, ToolReturn, Truncate, Unit, Usage, Warning,
};
use proptest::prelude::*;
use serde_json::json;

use crate::support::{Fault, Faulty, block_on, builder, call, log, memory};

fn text(admitted: &Admitted) -> &str {
    admitted.output.text().expect("one text")
}

fn admit(limits: &ToolOutputLimits, output: impl Into<ToolReturn>) -> Admitted {
    block_on(limits.admit(&call(), output))
}

fn spill_from(over: u64) -> [Band; 1] {
    [Band::new(over, Action::from(Spill::default()).or(Truncate::default()))]
}

/// The whole payload, read back through the read tool with its default bounds.
fn read_whole(limits: &ToolOutputLimits, handle: &str) -> String {
    let (mut whole, mut offset) = (String::new(), 0);
    loop {
        let args = json!({ "handle": handle, "offset": offset });
        let answer = block_on(limits.read(&args));
        let (header, body) = answer.split_once('\n').expect("a header");
        whole.push_str(body);
        match header.split_once("go on with offset=") {
            Some((_, next)) => offset = next.trim_end_matches(']').parse().unwrap(),
            None => return whole,
        }
    }
}

#[test]
fn a_small_return_passes_as_it_came() {
    let limits = builder().build().unwrap();
    let value = json!({ "b": 1, "a": [1.0, "x"] });
    for payload in [
        Payload::from("x".repeat(9_999)),
        Payload::from(""),
        Payload::from("\u{1b}[31mred\u{1b}[0m\r\n"),
        Payload::from(value),
        Payload::from(vec![0, 159, 146, 150]),
    ] {
        let admitted = admit(&limits, payload.clone());
        assert_eq!(admitted.output.value, [payload]);
        assert!(admitted.reductions.is_empty() && admitted.warnings.is_empty());
    }
}

#[test]
fn a_big_return_becomes_marker_and_excerpt_and_every_byte_reads_back() {
    let limits = builder().build().unwrap();
    let whole = log(5_000);
    let admitted = admit(&limits, whole.as_str());
    let view = text(&admitted);
    let handles: Vec<_> = Marker::handles(view).collect();
    let receipts: Vec<_> = admitted.receipts().map(|receipt| receipt.handle.clone()).collect();
    assert_eq!(handles, receipts);
    assert_eq!(handles.len(), 1);
    assert!(
        view.starts_with("[overspill: 48,890 characters, 5,000 lines, stored as run-1/call-1.")
    );
    assert!(view.contains("line 0\n") && view.trim_end().ends_with("line 4999"), "{view}");
    assert!(view.len() < 1_500, "{}", view.len());
    assert_eq!(read_whole(&limits, handles[0].as_str()), whole);
}

#[test]
fn the_band_with_the_largest_threshold_that_fits_decides() {
    let bands = [
        Band::new(200, Truncate { max_chars: 160, ..Truncate::default() }.into()),
        Band::new(1_000, Spill::default().into()),
        Band::new(5_000, Action::Passthrough),
    ];
    let limits = builder().bands(bands).build().unwrap();
    let seen = [199, 200, 999, 5_000, 50_000].map(|n| {
        let admitted = admit(&limits, "word ".repeat(n / 5 + 1)[..n].to_owned());
        admitted.reductions.first().map(|reduction| (reduction.action, reduction.over))
    });
    let truncate = Some(("truncate", 200));
    assert_eq!(seen, [None, truncate, truncate, None, None]);
    let admitted = admit(&limits, log(300));
    assert_eq!(admitted.reductions[0].action, "spill");
}

#[test]
fn a_tools_own_bands_and_the_filter_decide_which_tools_are_looked_at() {
    let own = ToolBands::new([("mcp__*", Bands::new(spill_from(100_000)).unwrap())]).unwrap();
    let limits =
        builder().tool_bands(own).tools(ToolFilter::except(["secret"]).unwrap()).build().unwrap();
    let reduced = |tool: &str| {
        let call = ToolCall::new("r", "c", tool);
        !block_on(limits.admit(&call, log(5_000))).reductions.is_empty()
    };
    assert!(reduced("bash") && !reduced("mcp__files__read") && !reduced("secret"));
    let by_predicate =
        builder().tools(ToolFilter::matching(|tool| tool.len() > 4)).build().unwrap();
    assert!(admit(&by_predicate, log(5_000)).reductions.is_empty());
}

#[test]
fn nothing_is_done_while_it_is_off() {
    let limits = ToolOutputLimits::builder().enabled(false).build().unwrap();
    let whole = log(50_000);
    assert_eq!(text(&admit(&limits, whole.as_str())), whole);
}

#[test]
fn errors_pass_whole_and_so_do_the_read_tools_own_returns() {
    let limits = builder().build().unwrap();
    let error = ToolReturn::error(log(5_000));
    assert_eq!(admit(&limits, error.clone()).output, error);
    for tool in ["read_tool_result", "mcp__files__read_tool_result", "a.read_tool_result"] {
        let admitted = block_on(limits.admit(&ToolCall::new("r", "c", tool), log(5_000)));
        assert_eq!(text(&admitted), log(5_000), "{tool}");
    }
}

#[test]
fn an_answer_that_a_shell_read_is_not_reduced_again() {
    let limits = builder().build().unwrap();
    let admitted = admit(&limits, log(20_000));
    let handle = admitted.receipts().next().unwrap().handle.clone();
    let answer = block_on(limits.read(&json!({ "handle": handle, "limit": 1_000 })));
    let shell = ToolCall::new("run-1", "call-2", "bash");
    let again = block_on(limits.admit(&shell, answer.as_str()));
    assert_eq!(text(&again), answer);
    // Only what is within the read tool's bounds: an opening line is easily forged.
    let forged = format!("{answer}{}", log(20_000));
    assert!(!block_on(limits.admit(&shell, forged)).reductions.is_empty());
}

#[test]
fn a_preview_of_no_characters_shows_nothing_of_the_payload() {
    let bands = [Band::new(100, Spill { preview_chars: 0 }.into())];
    let limits = builder().bands(bands).build().unwrap();
    let admitted = admit(&limits, "secret ".repeat(10_000));
    assert!(!text(&admitted).contains("secret"), "{}", text(&admitted));
    assert!(text(&admitted).ends_with("Nothing of it is shown]"));
}

#[test]
fn a_value_keeps_its_kind_unless_it_is_reduced() {
    let limits = builder().build().unwrap();
    let small = json!({ "n": [1, 2, 3] });
    assert_eq!(admit(&limits, small.clone()).output.value, [Payload::Json(small)]);
    let big = json!((0..2_000).map(|i| json!({ "id": i, "ok": true })).collect::<Vec<_>>());
    let admitted = admit(&limits, big.clone());
    let receipt = admitted.receipts().next().unwrap();
    assert_eq!(receipt.media_type, "application/json");
    assert_eq!(read_whole(&limits, receipt.handle.as_str()), big.to_string());
}

#[test]
fn every_kind_of_return_has_a_text_for_the_model() {
    let limits = builder().build().unwrap();
    let image = Payload::Media(Media { media_type: "image/png".into(), bytes: vec![0; 3] });
    let value = vec!["text".into(), json!({ "a": 1 }).into(), b"caf\xe9".to_vec().into(), image];
    let admitted = admit(&limits, ToolReturn { value, ..ToolReturn::default() });
    assert_eq!(admitted.to_text(), "text\n{\"a\":1}\ncaf\\xe9\n[image/png, 3 bytes]");
}

#[test]
fn a_number_that_is_none_leaves_valid_json() {
    let limits = builder().bands(spill_from(10)).build().unwrap();
    let value = Payload::json(&vec![f64::NAN, f64::INFINITY, 1.5]).unwrap();
    let numbers: Vec<Payload> = std::iter::repeat_n(value, 1).collect();
    let admitted = admit(&limits, ToolReturn { value: numbers, ..ToolReturn::default() });
    assert_eq!(admitted.output.value, [Payload::Json(json!([null, null, 1.5]))]);
}

#[test]
fn an_image_stays_an_image_however_big() {
    let limits = builder().build().unwrap();
    let image = Media { media_type: "image/png".into(), bytes: vec![7; 500_000] };
    let output = ToolReturn {
        value: vec![log(5_000).into(), Payload::Media(image.clone())],
        ..ToolReturn::default()
    }
    .with_content(Payload::Media(image.clone()));
    let admitted = admit(&limits, output);
    assert_eq!(admitted.output.value[1], Payload::Media(image.clone()));
    assert_eq!(admitted.output.content, [Payload::Media(image)]);
    assert_eq!(admitted.reductions.len(), 1);
    assert!(matches!(admitted.warnings[..], [Warning::BigMedia { .. }, Warning::BigMedia { .. }]));
}

#[test]
fn value_and_content_are_reduced_under_handles_of_their_own() {
    let limits = builder().build().unwrap();
    let whole = log(5_000);
    let output = ToolReturn::from(whole.as_str()).with_content(whole.as_str());
    let admitted = admit(&limits, output);
    let handles: Vec<_> = admitted.receipts().map(|r| r.handle.to_string()).collect();
    assert_eq!(handles.len(), 2);
    assert_ne!(handles[0], handles[1]);
    for handle in handles {
        assert_eq!(read_whole(&limits, &handle), whole);
    }
}

#[test]
fn parts_are_measured_together_and_the_biggest_give_way_first() {
    let limits = builder().build().unwrap();
    let image = Payload::Media(Media { media_type: "image/png".into(), bytes: vec![1, 2] });
    let part = |n: usize| Payload::from("word ".repeat(n));
    let value = vec![part(800), image.clone(), part(1_300), image.clone(), part(100)];
    let admitted = admit(&limits, ToolReturn { value: value.clone(), ..ToolReturn::default() });
    assert_eq!(admitted.reductions.len(), 1, "the sum is over, one reduction is enough");
    assert_eq!(admitted.output.value[0], value[0]);
    assert_ne!(admitted.output.value[2], value[2]);
    // Adjacent texts are one text.
    let many: Vec<Payload> = (0..1_000).map(|i| format!("part number {i}").into()).collect();
    let admitted = admit(&limits, ToolReturn { value: many, ..ToolReturn::default() });
    assert_eq!(admitted.output.value.len(), 1);
    let handle = admitted.receipts().next().unwrap().handle.to_string();
    let joined: Vec<String> = (0..1_000).map(|i| format!("part number {i}")).collect();
    assert_eq!(read_whole(&limits, &handle), joined.join("\n"));
}

#[test]
fn bytes_that_are_no_text_are_stored_but_never_cut() {
    let bytes: Vec<u8> = (0..40_000u32).map(|i| (i * 7) as u8).collect();
    let limits = builder().build().unwrap();
    let admitted = admit(&limits, bytes.clone());
    let receipt = admitted.receipts().next().unwrap();
    assert_eq!((receipt.media_type.as_str(), receipt.bytes), ("application/octet-stream", 40_000));

    let only_cut = ToolOutputLimits::builder()
        .bands([Band::new(1_000, Truncate::default().into())])
        .build()
        .unwrap();
    let admitted = admit(&only_cut, bytes.clone());
    assert_eq!(admitted.output.value, [Payload::Bytes(bytes)]);
    assert!(matches!(admitted.warnings[..], [Warning::NotCut { .. }, Warning::Whole { .. }]));
}

#[test]
fn text_that_is_not_quite_utf8_is_handled_like_any_other() {
    let mut bytes = log(5_000).into_bytes();
    bytes[20_000] = 0xff;
    let limits = builder().build().unwrap();
    let admitted = admit(&limits, bytes.clone());
    let handle = admitted.receipts().next().unwrap().handle.to_string();
    let shown = String::from_utf8_lossy(&bytes).replace('\u{fffd}', "\\xff");
    assert_eq!(read_whole(&limits, &handle), shown);
    let cut = ToolOutputLimits::builder()
        .bands([Band::new(1_000, Truncate::default().into())])
        .build()
        .unwrap();
    assert!(text(&admit(&cut, bytes)).contains("left out here and not stored"));
}

#[test]
fn a_structured_value_is_cut_only_as_the_last_resort_and_says_so() {
    let value = json!((0..3_000).collect::<Vec<_>>());
    let cut = Action::from(Truncate::default());
    let last = ToolOutputLimits::builder().bands([Band::new(1_000, cut.clone())]).build().unwrap();
    assert!(text(&admit(&last, value.clone())).contains("no longer valid JSON"));
    let not_last = builder().bands([Band::new(1_000, cut.or(Spill::default()))]).build().unwrap();
    let admitted = admit(&not_last, value);
    assert_eq!(admitted.reductions[0].action, "spill");
    assert!(matches!(admitted.warnings[..], [Warning::NotCut { .. }]));
}

#[test]
fn a_store_that_fails_anywhere_lets_the_next_action_run() {
    for fault in [Fault::Stage, Fault::FullAfter(30_000), Fault::Commit] {
        let limits = ToolOutputLimits::builder().store(Faulty::with(fault)).build().unwrap();
        let admitted = admit(&limits, log(50_000));
        assert_eq!(admitted.reductions[0].action, "truncate", "{fault:?}");
        assert!(matches!(admitted.warnings[..], [Warning::NotStored { .. }]), "{fault:?}");
        assert!(text(&admitted).contains("not stored"));
        assert_eq!(Marker::handles(text(&admitted)).count(), 0);

        // A chain that ends without one that can run passes the return whole, with a warning.
        let limits = ToolOutputLimits::builder()
            .store(Faulty::with(fault))
            .bands([Band::new(1_000, Spill::default().into())])
            .build()
            .unwrap();
        let admitted = admit(&limits, log(50_000));
        assert_eq!(text(&admitted), log(50_000));
        let [Warning::NotStored { .. }, Warning::Whole { .. }] = &admitted.warnings[..] else {
            panic!("{:?}", admitted.warnings);
        };
    }
}

#[test]
fn a_reduction_that_is_not_smaller_is_not_applied() {
    let bands = [Band::new(1, Spill { preview_chars: 5_000 }.into())];
    let limits = builder().bands(bands).build().unwrap();
    for whole in ["a", "ab\n", &log(20)] {
        assert_eq!(text(&admit(&limits, whole)), whole);
    }
}

#[test]
fn the_marker_says_the_number_that_was_measured() {
    struct Words;
    impl Tokenizer for Words {
        fn count(&self, text: &str) -> u64 {
            text.split_whitespace().count() as u64
        }
    }
    let whole = log(5_000);
    for (unit, words) in [
        (Unit::Characters, "48,890 characters"),
        (Unit::EstimatedTokens, "12,222 estimated tokens"),
        (Unit::Tokens(Arc::new(Words)), "10,000 tokens"),
    ] {
        let limits = builder().unit(unit).bands(spill_from(9_000)).build().unwrap();
        let admitted = admit(&limits, whole.as_str());
        assert!(text(&admitted).starts_with(&format!("[overspill: {words},")), "{words}");
    }
}

#[test]
fn the_exit_status_stays_in_view() {
    let limits = builder().build().unwrap();
    let admitted = admit(&limits, ToolReturn::from(log(5_000)).with_exit_status(101));
    assert!(text(&admitted).starts_with("[overspill: exit status 101; "));
}

#[test]
fn control_sequences_are_stored_but_not_measured_nor_shown() {
    let red = |text: &str| format!("\u{1b}[1;31m{text}\u{1b}[0m");
    let limits = builder().strip_ansi(true).bands(spill_from(1_000)).build().unwrap();
    let short = red(&"x".repeat(990));
    assert_eq!(text(&admit(&limits, short)), "x".repeat(990));
    let long: String = (0..1_000).map(|i| red(&format!("line {i}")) + "\n").collect();
    let admitted = admit(&limits, long.as_str());
    let plain: String = (0..1_000).map(|i| format!("line {i}\n")).collect();
    assert!(!text(&admitted).contains('\u{1b}'));
    assert!(text(&admitted).starts_with("[overspill: 8,890 characters"));
    let receipt = admitted.receipts().next().unwrap();
    assert_eq!(receipt.bytes, long.len() as u64);
    assert_eq!(read_whole(&limits, receipt.handle.as_str()), plain);
}

mod summaries {
    use super::*;

    fn summarizing(
        reply: impl Fn(&str, &str) -> Result<Summary, SummaryError> + Send + Sync + 'static,
        action: impl Into<Action>,
    ) -> ToolOutputLimits {
        let reply = Arc::new(reply);
        let summarizer = summarizer(move |tool: String, text: String| {
            let reply = reply(&tool, &text);
            async move { reply }
        });
        builder()
            .summarizer(Arc::new(summarizer))
            .bands([Band::new(1_000, action.into())])
            .build()
            .unwrap()
    }

    const USAGE: Usage = Usage { requests: 1, input_tokens: 12_000, output_tokens: 40 };

    #[test]
    fn a_summary_stands_beside_the_handle_of_the_original() {
        let limits = summarizing(
            |tool, text| {
                let text = format!("{tool} printed {} lines", text.lines().count());
                Ok(Summary { text, usage: USAGE })
            },
            Summarize::default(),
        );
        let admitted = admit(&limits, log(5_000));
        assert_eq!(admitted.usage, USAGE);
        assert!(text(&admitted).ends_with("A model's summary of it:]\nbash printed 5000 lines"));
        let handle = admitted.receipts().next().unwrap().handle.to_string();
        assert_eq!(read_whole(&limits, &handle), log(5_000));
    }

    #[test]
    fn a_summary_that_is_none_counts_as_failed_and_is_paid_for() {
        type Reply = fn(&str) -> Result<Summary, SummaryError>;
        let replies: [Reply; 4] = [
            |_| Err(SummaryError::new("the model is down").with_usage(USAGE)),
            |_| Ok(Summary { text: String::new(), usage: USAGE }),
            |_| Ok(Summary { text: " \n ".into(), usage: USAGE }),
            |text| Ok(Summary { text: format!("{text}!"), usage: USAGE }),
        ];
        for reply in replies {
            let chain = Action::from(Summarize::default()).or(Spill::default());
            let admitted = admit(&summarizing(move |_, text| reply(text), chain), log(5_000));
            assert_eq!(admitted.usage, USAGE);
            assert_eq!(admitted.reductions[0].action, "spill");
            assert!(matches!(admitted.warnings[..], [Warning::NotSummarized { .. }]));

            // Without another action the return is in view whole, and that is said.
            let limits = summarizing(move |_, text| reply(text), Summarize::default());
            let admitted = admit(&limits, log(50_000));
            assert_eq!(text(&admitted), log(50_000));
            let [Warning::NotSummarized { .. }, Warning::Whole { .. }] = admitted.warnings[..]
            else {
                panic!("{:?}", admitted.warnings);
            };
        }
    }

    #[test]
    fn chains_may_be_long() {
        let calls = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&calls);
        let chain = Action::from(Summarize::default()).or(Spill::default()).or(Truncate {
            max_chars: 500,
            keep: Keep::Head,
            ..Truncate::default()
        });
        let limits = ToolOutputLimits::builder()
            .store(Faulty::with(Fault::Commit))
            .summarizer(Arc::new(summarizer(move |_, _| {
                counted.fetch_add(1, Ordering::Relaxed);
                async { Err(SummaryError::new("no")) }
            })))
            .bands([Band::new(1_000, chain)])
            .build()
            .unwrap();
        let admitted = admit(&limits, log(5_000));
        assert_eq!(admitted.reductions[0].action, "truncate");
        assert_eq!(admitted.warnings.len(), 2, "neither could be stored");
        assert_eq!(calls.load(Ordering::Relaxed), 0, "no model is paid for what is not stored");
    }
}

#[test]
fn a_policy_that_cannot_work_is_refused_when_it_is_built() {
    let without_store = ToolOutputLimits::builder().build();
    assert!(matches!(without_store, Err(PolicyError::NoStore { .. })));
    let without_model = builder().bands([Band::new(1, Summarize::default().into())]).build();
    assert!(matches!(without_model, Err(PolicyError::NoSummarizer { .. })));
    let twice = builder().bands([spill_from(5), spill_from(5)].concat()).build();
    assert!(matches!(twice, Err(PolicyError::Bands(_))));
    for max_chars in [0, 1, Truncate::MIN_CHARS - 1, Truncate::MIN_CHARS] {
        let truncate = Truncate { max_chars, ..Truncate::default() };
        let chain = Action::from(Spill::default()).or(truncate);
        let cut = builder().bands([Band::new(1, chain)]).build();
        match cut {
            Ok(_) => assert_eq!(max_chars, Truncate::MIN_CHARS),
            Err(error) => {
                assert!(matches!(error, PolicyError::TooShort { .. }), "{error}");
                assert!(error.to_string().contains("allow 160 at least"), "{error}");
            }
        }
    }
    for name in ["", "read tool", "é", &"x".repeat(65)] {
        let named = builder().read_tool_name(name).build();
        assert!(matches!(named, Err(PolicyError::ReadToolName { .. })), "{name}");
    }
}

#[test]
fn empty_and_reused_call_ids_never_overwrite_one_another() {
    let limits = builder().build().unwrap();
    let outputs: Vec<String> = (0..5).map(|i| format!("output {i}\n{}", log(3_000))).collect();
    let handles: Vec<String> = outputs
        .iter()
        .map(|output| {
            let call = ToolCall::new("", "", "bash");
            let admitted = block_on(limits.admit(&call, output.as_str()));
            admitted.receipts().next().unwrap().handle.to_string()
        })
        .collect();
    for (handle, output) in handles.iter().zip(&outputs) {
        assert_eq!(&read_whole(&limits, handle), output);
    }
}

#[test]
fn the_paths_futures_can_be_sent_between_threads() {
    fn is_send<T: Send>(_: &T) {}
    let limits = builder().build().unwrap();
    let args = json!({});
    is_send(&limits.admit(&call(), "x"));
    is_send(&limits.read(&args));
    let mut stream = limits.stream(&call());
    is_send(&stream.push(bytes::Bytes::new()));
    is_send(&stream.finish(None));
}

mod streams {
    use super::*;

    /// What a stream shows at once, and in the end.
    fn stream(limits: &ToolOutputLimits, whole: &[u8], piece: usize) -> (Vec<u8>, Admitted) {
        block_on(async {
            let mut stream = limits.stream(&call());
            let mut passed = Vec::new();
            for piece in whole.chunks(piece) {
                passed.extend(stream.push(piece.to_vec().into()).await.unwrap_or_default());
            }
            (passed, stream.finish(Some(0)).await)
        })
    }

    #[test]
    fn a_stream_gives_the_same_view_as_the_same_bytes_at_once() {
        for lines in [10, 1_000, 2_000, 200_000] {
            let whole = log(lines);
            let limits = builder().build().unwrap();
            let output = ToolReturn::from(whole.clone().into_bytes()).with_exit_status(0);
            let at_once = block_on(limits.admit(&call(), output));
            for piece in [1_000, 65_536, 10_000_000] {
                let (passed, admitted) = stream(&limits, whole.as_bytes(), piece);
                assert!(passed.is_empty());
                assert_eq!(admitted.output, at_once.output, "{lines} lines by {piece}");
            }
        }
    }

    #[test]
    fn a_stream_that_may_pass_does_so_as_it_comes() {
        let whole = log(200_000);
        let off = ToolOutputLimits::builder().enabled(false).build().unwrap();
        let filtered = builder().tools(ToolFilter::only(["x"]).unwrap()).build().unwrap();
        let passthrough =
            builder().bands([Band::new(10_000, Action::Passthrough)]).build().unwrap();
        for limits in [off, filtered, passthrough] {
            let (passed, admitted) = stream(&limits, whole.as_bytes(), 4_096);
            assert_eq!(passed, whole.as_bytes());
            assert!(admitted.output.value.is_empty());
        }
    }

    #[test]
    fn a_store_that_fails_midway_leaves_head_and_tail() {
        for fault in [Fault::Stage, Fault::FullAfter(300_000), Fault::Commit] {
            for action in [
                Action::from(Spill::default()).or(Truncate::default()),
                Action::from(Spill::default()),
            ] {
                let lost = action.then().is_none();
                let limits = ToolOutputLimits::builder()
                    .store(Faulty::with(fault))
                    .bands([Band::new(10_000, action)])
                    .build()
                    .unwrap();
                let (_, admitted) = stream(&limits, log(200_000).as_bytes(), 10_000);
                let view = match &admitted.output.value[..] {
                    [Payload::Text(text)] => text,
                    other => panic!("{other:?}"),
                };
                assert!(view.starts_with("line 0\n") && view.ends_with("line 199999\n"));
                assert!(view.contains("left out here and not stored") && view.len() < 5_000);
                assert!(matches!(admitted.warnings[0], Warning::NotStored { .. }));
                let said = |w: &Warning| matches!(w, Warning::MiddleLost { .. });
                assert_eq!(admitted.warnings.iter().any(said), lost);
            }
        }
    }

    #[test]
    fn a_stream_that_was_stored_for_a_summary_that_failed_shows_its_marker() {
        let limits = builder()
            .summarizer(Arc::new(summarizer(|_, _| async { Err(SummaryError::new("no model")) })))
            .bands([Band::new(1_000, Summarize::default().into())])
            .build()
            .unwrap();
        let whole = log(200_000);
        let (_, admitted) = stream(&limits, whole.as_bytes(), 10_000);
        let handle = Marker::handles(&admitted.to_text()).next().unwrap();
        assert_eq!(admitted.reductions[0].action, "spill");
        assert!(matches!(admitted.warnings[..], [Warning::NotSummarized { .. }]));
        assert!(read_whole(&limits, handle.as_str()) == whole);
    }

    #[test]
    fn what_is_left_of_a_stream_is_never_said_to_be_whole() {
        let cut = Action::from(Truncate::default());
        let noise: Vec<u8> =
            (0..500_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        let only_cut = ToolOutputLimits::builder().bands([Band::new(1_000, cut)]).build().unwrap();
        let (_, admitted) = stream(&only_cut, &noise, 10_000);
        let said = |admitted: &Admitted| {
            admitted.warnings.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
        };
        assert!(said(&admitted).contains("only its beginning and end are left"));
        assert!(!said(&admitted).contains("in view whole"), "{}", said(&admitted));
    }

    /// Looking at what is held must not cost more the more of it is stripped.
    #[test]
    fn an_output_of_nothing_but_control_sequences_is_looked_at_seldom() {
        let whole = b"\x1b]0;title\x07".repeat(400_000);
        let limits = builder().strip_ansi(true).build().unwrap();
        let (_, admitted) = stream(&limits, &whole, 4_096);
        assert!(admitted.to_text().is_empty());
    }

    /// A screen that is drawn again and again, with a line that stays from time to time.
    fn redrawn(lines: usize) -> String {
        let screen =
            "\u{1b}[2J\u{1b}]0;title\u{7}\u{1b}[1;1H".repeat(2_500_000 / 22 / lines.max(1));
        (0..lines).map(|i| format!("{screen}\u{1b}[32mline {i}\u{1b}[m\n")).collect::<String>()
            + "\u{1b}]x"
    }

    #[test]
    fn a_stream_with_too_many_control_sequences_to_hold_shows_the_same_as_at_once() {
        let bands = || {
            [
                Band::new(200, Truncate { max_chars: 180, ..Truncate::default() }.into()),
                Band::new(2_000, Spill { preview_chars: 300 }.into()),
                Band::new(20_000, Action::from(Spill::default()).or(Truncate::default())),
            ]
        };
        let unsure =
            || [Band::new(2_000, Spill::default().into()), Band::new(20_000, Action::Passthrough)];
        let policies = [
            builder().bands(bands()),
            builder().bands(unsure()),
            builder().bands([Band::new(9_000, Action::Passthrough)]),
            builder(),
            ToolOutputLimits::builder().store(Faulty::with(Fault::Stage)),
            ToolOutputLimits::builder().store(Faulty::with(Fault::FullAfter(1_500_000))),
            ToolOutputLimits::builder()
                .store(Faulty::with(Fault::Commit))
                .bands([Band::new(1_000, Spill::default().into())]),
        ];
        // As many lines as fall in each band, and more than are held aside.
        for lines in [1, 100, 1_000, 4_000, 12_000] {
            let whole = redrawn(lines);
            // What is too long to hold is lost where nothing can be stored.
            let tried = if lines > 10_000 { 4 } else { policies.len() };
            for (i, policy) in policies.iter().enumerate().take(tried) {
                let limits = policy.clone().strip_ansi(true).build().unwrap();
                let output = ToolReturn::from(whole.clone().into_bytes()).with_exit_status(0);
                let at_once = block_on(limits.admit(&call(), output));
                let (passed, admitted) = stream(&limits, whole.as_bytes(), 100_000);
                let seen = |admitted: &Admitted| match &admitted.output.value[..] {
                    [Payload::Text(text)] => text.clone().into_bytes(),
                    [Payload::Bytes(bytes)] => bytes.clone(),
                    other => panic!("{other:?}"),
                };
                let all = [passed, seen(&admitted)].concat();
                assert!(
                    all == seen(&at_once),
                    "policy {i}, {lines} lines:\n{}\n{}",
                    String::from_utf8_lossy(&all),
                    String::from_utf8_lossy(&seen(&at_once))
                );
                let made = |admitted: &Admitted| format!("{:?}", admitted.reductions);
                assert_eq!(made(&admitted), made(&at_once));
                for receipt in admitted.receipts() {
                    assert_eq!(receipt.bytes, whole.len() as u64, "what is stored keeps them");
                }
            }
        }
    }

    #[test]
    fn a_summary_of_a_stream_with_many_control_sequences_is_made_from_what_it_shows() {
        let limits = builder()
            .strip_ansi(true)
            .summarizer(Arc::new(summarizer(|_, text: String| {
                let text =
                    format!("{} lines, clean: {}", text.lines().count(), !text.contains('\u{1b}'));
                async move { Ok(Summary { text, usage: Usage::default() }) }
            })))
            .bands([Band::new(1_000, Summarize::default().into())])
            .build()
            .unwrap();
        let (_, admitted) = stream(&limits, redrawn(500).as_bytes(), 100_000);
        assert!(admitted.output.text().unwrap().ends_with("\n501 lines, clean: true"));
    }

    #[test]
    fn small_thresholds_never_make_a_stream_bigger() {
        let limits = builder().bands([Band::new(0, Spill::default().into())]).build().unwrap();
        for whole in ["", "hi\n", &log(20)] {
            let (_, admitted) = stream(&limits, whole.as_bytes(), 1);
            let out: Vec<u8> = admitted
                .output
                .value
                .iter()
                .flat_map(|payload| match payload {
                    Payload::Bytes(bytes) => bytes.clone(),
                    Payload::Text(text) => text.clone().into_bytes(),
                    other => panic!("{other:?}"),
                })
                .collect();
            assert_eq!(out, whole.as_bytes());
        }
    }

    #[test]
    fn a_streams_control_sequences_are_stored_but_not_shown() {
        let whole: String = (0..50_000).map(|i| format!("\u{1b}[32mline {i}\u{1b}[m\n")).collect();
        let limits = builder().strip_ansi(true).build().unwrap();
        let (_, admitted) = stream(&limits, whole.as_bytes(), 7_777);
        let receipt = admitted.receipts().next().unwrap();
        assert_eq!(receipt.bytes, whole.len() as u64);
        let view = admitted.output.text().unwrap();
        assert!(!view.contains('\u{1b}'));
        assert!(view.contains("538,890 characters"), "{view}");
    }

    #[test]
    fn a_summary_of_a_stream_is_made_from_what_was_stored() {
        let limits = builder()
            .summarizer(Arc::new(summarizer(|_, text: String| {
                let text = format!("{} lines", text.lines().count());
                async move { Ok(Summary { text, usage: Usage::default() }) }
            })))
            .bands([Band::new(10_000, Summarize::default().into())])
            .build()
            .unwrap();
        let (_, admitted) = stream(&limits, log(100_000).as_bytes(), 10_000);
        assert!(admitted.output.text().unwrap().ends_with("\n100000 lines"));
    }
}

/// Bytes of every kind: text of several scripts, JSON, control sequences, and noise.
fn payload() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        "[ -~]{0,80}\n".prop_map(String::into_bytes),
        "\\PC{0,40}\r?\n?".prop_map(String::into_bytes),
        "\\{\"[a-z]{1,8}\":[0-9]{1,6},\"s\":\"[a-z]{0,30}\"\\},".prop_map(String::into_bytes),
        "\u{1b}\\[[0-9;]{0,5}m".prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>(), 0..60),
        Just(b"[".to_vec()),
        (0..3_000usize).prop_map(|n| vec![b'x'; n]),
    ];
    prop::collection::vec(piece, 0..120).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn whatever_comes_in(
        whole in payload(),
        over in 0u64..3_000,
        preview_chars in 0usize..2_000,
        strip in any::<bool>(),
        piece in 1usize..5_000,
    ) {
        let limits = builder()
            .bands([Band::new(over, Action::from(Spill { preview_chars }))])
            .strip_ansi(strip)
            .build()
            .unwrap();
        let admitted = admit(&limits, whole.clone());

        // The same input twice gives the same bytes.
        prop_assert_eq!(&admit(&limits, whole.clone()).output, &admitted.output);

        // The view is never larger than the return.
        let size = |payload: &Payload| match payload {
            Payload::Text(text) => text.chars().count() as u64,
            Payload::Bytes(bytes) => overspill::measure::count_chars(bytes),
            other => panic!("{other:?}"),
        };
        let shown: u64 = admitted.output.value.iter().map(size).sum();
        prop_assert!(shown <= overspill::measure::count_chars(&whole));

        // Every byte is reachable through the read tool with its default bounds.
        if let Some(receipt) = admitted.receipts().next() {
            prop_assert_eq!(receipt.bytes, whole.len() as u64);
            let read = read_whole(&limits, receipt.handle.as_str());
            if !strip {
                prop_assert_eq!(read, overspill::render::show_bytes(&whole));
            }
        }

        // A stream of the same bytes shows the same.
        let streamed = block_on(async {
            let mut stream = limits.stream(&call());
            for piece in whole.chunks(piece) {
                assert!(stream.push(piece.to_vec().into()).await.is_none());
            }
            stream.finish(None).await
        });
        prop_assert_eq!(streamed.output, admitted.output);
    }
}

#[test]
fn the_same_policy_over_two_stores_shows_the_same() {
    let whole = log(5_000);
    let views: Vec<String> = [memory(), memory()]
        .into_iter()
        .map(|store| {
            let limits = ToolOutputLimits::builder().store(store).build().unwrap();
            text(&admit(&limits, whole.as_str())).to_owned()
        })
        .collect();
    assert_eq!(views[0], views[1]);
}

/// Uuids are the longest names that hosts commonly give.
#[test]
fn what_the_lean_preset_leaves_in_view_has_1700_characters_at_most() {
    use overspill::config::Preset;
    let bands = Preset::Lean.bands(&Unit::Characters).iter().cloned().collect::<Vec<_>>();
    let limits = builder().bands(bands).build().unwrap();
    let uuid = "00f0a2c8-8f5e-4c1e-9d2a-0123456789ab";
    let call = ToolCall::new(uuid, uuid, "run_a_command");
    let json = json!(
        (0..5_000).map(|id| json!({ "id": id, "name": format!("n{id}") })).collect::<Vec<_>>()
    );
    let binary = (0..=u8::MAX).cycle().take(2_000_000).collect::<Vec<u8>>();
    for payload in [Payload::from(log(80_000)), json.into(), binary.into()] {
        let admitted = block_on(limits.admit(&call, payload));
        let chars = text(&admitted).chars().count();
        assert!((300..=1_700).contains(&chars), "{chars}: {}", text(&admitted));
    }
}
