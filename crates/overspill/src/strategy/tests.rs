//! Pictures of what each strategy does; what holds for all of them is in `all`.

pub(super) mod all;
pub(super) mod bench;
pub(super) mod script;

use std::sync::atomic::{AtomicUsize, Ordering};

use script::Script;

use super::*;
use crate::entry::{EntryId, Kind, Note};
use crate::filter::ToolFilter;
use crate::history::{ReturnPlace, Rules};

/// Compares a picture with lines that are indented as the test is.
#[track_caller]
fn check(script: &Script, strategy: &dyn Strategy, expected: &str) {
    let expected: String = expected
        .lines()
        .filter_map(|line| line.split_once('|'))
        .fold(String::new(), |all, line| all + line.1 + "\n");
    let picture = script.picture(strategy);
    assert_eq!(picture, expected, "\n{picture}");
}

/// Compares with no change at all.
#[track_caller]
fn check_stays(script: &Script, strategy: &dyn Strategy) {
    assert!(script.plan(strategy).is_empty(), "\n{}", script.picture(strategy));
}

mod store_arguments {
    use super::*;

    const WRITTEN: &str = r#"
        u go
        a call x write {"path":"a.rs","content":"line*3000"}
        t ret x ok
    "#;

    #[test]
    fn what_is_long_is_left_out_and_what_is_short_stays() {
        check(
            &Script::new(WRITTEN),
            &StoreArguments::default(),
            r#"
            |  u go
            |~ a call write {"path":"a.rs","content":"(3,002 characters)","overspill":"Cut from this record only; the tool got it whole. Write new calls in full. [3,028 characters, 3 lines]"}
            |  t ret ok
            "#,
        );
    }

    #[test]
    fn what_is_shorter_than_asked_for_stays() {
        let script = Script::new(WRITTEN);
        check_stays(&script, &StoreArguments { over_chars: 3_028, ..StoreArguments::default() });
        let over = StoreArguments { over_chars: 3_027, ..StoreArguments::default() };
        assert!(!script.plan(&over).is_empty());
    }

    #[test]
    fn a_call_that_waits_for_its_return_stays() {
        let script = Script::new(
            r#"
            u go
            a call x write {"path":"a.rs","content":"line*3000"} | call y write {"content":"line*3000"}
            t ret y ok
            "#,
        );
        let plan = script.plan(&StoreArguments::default());
        assert_eq!(plan.edits().len(), 1);
        assert!(format!("{plan:?}").contains("EntryId(2)"), "{plan:?}");
    }

    #[test]
    fn what_was_stored_stays_the_same_when_the_history_grows() {
        let (strategy, short) = (StoreArguments::default(), Script::new(WRITTEN));
        let long = short.clone().and(
            r#"
            a call x write {"path":"b.rs","content":"more*3000"}
            t ret x ok
        "#,
        );
        let (short, long) = (short.after(&strategy), long.after(&strategy));
        assert_eq!(long.messages[..3], short.messages);
        check_stays(&long, &strategy);
    }

    #[test]
    fn a_call_that_failed_stays_for_a_turn() {
        let failed = Script::new(
            r#"
            u go
            a call x edit {"path":"a.rs","oldText":"line*3000"}
            t err x no such text
            "#,
        );
        check_stays(&failed, &StoreArguments::default());
        let on = failed.and("a call y read {}\nt ret y text");
        assert_eq!(on.plan(&StoreArguments::default()).edits().len(), 1);
    }

    #[test]
    fn the_newest_turns_and_other_tools_keep_theirs() {
        let script = Script::new(WRITTEN).and("a call y read {}\nt ret y text");
        let kept = |keep_turns| StoreArguments { keep_turns, ..StoreArguments::default() };
        check_stays(&script, &kept(2));
        check_stays(&script, &kept(usize::MAX));
        assert_eq!(script.plan(&kept(1)).edits().len(), 1);
        let tools = ToolFilter::except(["write"]).unwrap();
        check_stays(&script, &StoreArguments { tools, ..StoreArguments::default() });
    }

    #[test]
    fn a_signed_call_and_a_pinned_one_stay() {
        let mut script = Script::new(WRITTEN);
        script.messages[1].parts[0].is_signed = true;
        check_stays(&script, &StoreArguments::default());
        let mut script = Script::new(WRITTEN);
        script.messages[1].is_pinned = true;
        check_stays(&script, &StoreArguments::default());
    }

    #[test]
    fn arguments_that_are_no_object_become_one() {
        let script = Script::new("u go\na call x patch *** line*3000\nt ret x ok");
        let after = script.after(&StoreArguments::default());
        let arguments: serde_json::Value =
            serde_json::from_str(&after.messages[1].parts[0].text).unwrap();
        assert_eq!(arguments.as_object().unwrap().len(), 1, "{arguments}");
        check_stays(&after, &StoreArguments::default());
    }
}

mod deduplicate_file_reads {
    use super::*;

    /// Says for each return whether it stays, in order.
    #[track_caller]
    fn check_returns(lines: &str, strategy: &DeduplicateFileReads, expected: &[bool]) {
        let script = Script::new(&format!("u go\n{lines}\nu on"));
        let history = script.history();
        let plan = script.plan(strategy);
        history.check(&plan).unwrap();
        let replaced = format!("{plan:?}");
        let stays = |at: usize| !replaced.contains(&format!("EntryId({at})"));
        let returns = (0..history.entries().len()).filter(|at| history.entries()[*at].is_return());
        let found: Vec<bool> = returns.map(stays).collect();
        assert_eq!(found, expected, "\n{}", script.picture(strategy));
    }

    fn default() -> DeduplicateFileReads {
        DeduplicateFileReads::default()
    }

    #[test]
    fn a_marker_says_what_came_later() {
        let script = Script::new(
            r#"
            u go
            a call x read {"path":"a.rs"}
            t ret x line*4000
            a call y read {"path":"b.rs"}
            t ret y line*5000
            a call x read {"path":"a.rs"}
            t ret x line*3000
            a call z write {"path":"b.rs","content":""}
            t ret z ok
            "#,
        );
        check(
            &script,
            &default(),
            r#"
            |  u go
            |  a call read {"path":"a.rs"}
            |~ t ret [4,000 characters, 2 lines] a.rs was read again later.
            |  a call read {"path":"b.rs"}
            |~ t ret [5,000 characters, 3 lines] b.rs was written anew later.
            |  a call read {"path":"a.rs"}
            |  t ret line*3000
            |  a call write {"path":"b.rs","content":""}
            |  t ret ok
            "#,
        );
        check_stays(&script.after(&default()), &default());
    }

    #[test]
    fn an_edit_outdates_only_when_asked_for() {
        let lines = r#"
            a call x read {"path":"a.rs"}
            t ret x line*4000
            a call y edit {"path":"a.rs","oldText":"a","newText":"b"}
            t ret y ok
        "#;
        check_returns(lines, &default(), &[true, true]);
        let too = DeduplicateFileReads { outdated_by: OutdatedBy::EditsToo, ..default() };
        check_returns(lines, &too, &[false, true]);
    }

    #[test]
    fn a_part_is_outdated_by_what_shows_its_lines() {
        // One line of the text is one line of the file.
        let page = |n: u64| format!("t ret x {}", "line*60⏎".repeat(n as usize));
        let read = |arguments: &str, lines: u64| {
            format!("a call x read {{\"path\":\"a.rs\"{arguments}}}\n{}\n", page(lines))
        };
        let part = |offset: u64, limit: u64, lines: u64| {
            read(&format!(",\"offset\":{offset},\"limit\":{limit}"), lines)
        };
        let whole = |lines| read("", lines);
        let check = |lines: String, expected: &[bool]| {
            check_script_returns(&lines, expected);
        };
        check(part(10, 20, 20) + &part(10, 20, 20), &[false, true]);
        check(part(10, 20, 20) + &part(30, 20, 20), &[true, true]);
        check(part(10, 20, 20) + &part(0, 100, 100), &[false, true]);
        check(part(0, 100, 100) + &part(10, 20, 20), &[true, true]);
        // Two later parts show it together.
        check(part(15, 20, 20) + &part(0, 25, 25) + &part(25, 25, 25), &[false, true, true]);
        check(part(10, 20, 20) + &whole(100), &[false, true]);
        // The tool cuts a whole file off at its own limit, so it does not show what comes after.
        check(part(500, 20, 20) + &whole(100), &[true, true]);
        check(whole(100) + &part(10, 20, 20), &[true, true]);
        // More was asked for than the file has.
        check(part(1, 2_000, 40) + &whole(40), &[false, true]);
    }

    /// As `check_returns`, where `⏎` in a return ends a line.
    #[track_caller]
    fn check_script_returns(lines: &str, expected: &[bool]) {
        let mut script = Script::new(&format!("u go\n{lines}\nu on"));
        for part in script.messages.iter_mut().flat_map(|said| &mut said.parts) {
            part.text = part.text.replace('⏎', "\n");
        }
        let plan = format!("{:?}", script.plan(&default()));
        let history = script.history();
        let returns = (0..history.entries().len()).filter(|at| history.entries()[*at].is_return());
        let found: Vec<bool> =
            returns.map(|at| !plan.contains(&format!("EntryId({at})"))).collect();
        assert_eq!(found, expected, "\n{lines}");
    }

    #[test]
    fn a_read_that_failed_or_shows_nothing_outdates_nothing() {
        let first = "a call x read {\"path\":\"a.rs\"}\nt ret x line*4000\n";
        let then = |answer: &str| format!("{first}a call y read {{\"path\":\"a.rs\"}}\nt {answer}");
        check_returns(&then("err y no such file"), &default(), &[true, true]);
        // A format that does not say which calls failed.
        check_returns(&then("ret y no such file"), &default(), &[true, true]);
        let reduced = "ret y [overspill: 4,000 characters, 1 line, stored as r/y.x; read on]";
        check_returns(&then(reduced), &default(), &[true, true]);
        let waits = format!("{first}a call y read {{\"path\":\"a.rs\"}}");
        check_returns(&waits, &default(), &[true]);
        let failed = format!("{first}a call y write {{\"path\":\"a.rs\"}}\nt err y read-only");
        check_returns(&failed, &default(), &[true, true]);
    }

    #[test]
    fn one_id_for_all_calls_makes_no_two_reads_the_same() {
        let read = |n: u64| {
            format!("a call call_0 read {{\"path\":\"{n}.rs\"}}\nt ret call_0 line*2000\n")
        };
        let lines: String = (0..40).map(read).collect();
        check_returns(&lines, &default(), &[true; 40]);
        let mut again = [true; 41];
        again[7] = false;
        check_returns(&(lines + &read(7)), &default(), &again);
    }

    #[test]
    fn reads_within_one_response_are_told_apart() {
        let lines = r#"
            a call - read {"path":"a.rs"} | call - read {"path":"b.rs"} | call - read {"path":"a.rs"}
            t ret - line*2000 | ret - line*2000 | ret - line*2000
        "#;
        check_returns(lines, &default(), &[false, true, true]);
    }

    #[test]
    fn what_is_small_or_pinned_stays_and_outdates_on() {
        let lines = r#"
            a call x read {"path":"a.rs"}
            t ret x line*200
            a call x read {"path":"b.rs"}
            t! ret x line*2000
            a call x read {"path":"a.rs"} | call y read {"path":"b.rs"}
            t ret x line*200 | ret y line*2000
        "#;
        check_returns(lines, &default(), &[true, true, true, true]);
    }

    #[test]
    fn a_host_says_which_file_a_call_means() {
        let files = FileKeys::new(|tool, arguments| {
            let key = arguments["url"].as_str()?.to_owned();
            (tool == "fetch").then_some(FileAccess { key, does: FileUse::Read, lines: None })
        });
        let lines = r#"
            a call x fetch {"url":"example.com"}
            t ret x line*2000
            a call x fetch {"url":"example.com"}
            t ret x line*2000
        "#;
        check_returns(lines, &default(), &[true, true]);
        check_returns(lines, &DeduplicateFileReads { files, ..default() }, &[false, true]);
    }
}

mod clamp_oversized {
    use super::*;

    fn clamp(tokens: u64) -> ClampOversized {
        ClampOversized {
            max_part: Limit::Tokens(tokens),
            keep_head_chars: 10,
            keep_tail_chars: 9,
            tools: ToolFilter::all(),
        }
    }

    #[test]
    fn head_and_tail_stay_of_what_ran_away() {
        let script = Script::new(
            r#"
            s rule*4000
            u task*4000
            a loop*4000 | think why*4000 | sign why*4000 | call x write {"path":"a.rs","content":"line*4000"}
            t ret x line*4000
            "#,
        );
        check(
            &script,
            &clamp(500),
            r#"
            |  s sys rule*4000
            |  u task*4000
            |~ a loop loop ⏎[4,000 characters, 2 lines; 3,981 characters of it are left out here]⏎oop loop  | think why why wh⏎[4,000 characters, 2 lines; 3,981 characters of it are left out here]⏎ why why  | think why*4000 | call write {"path":"a.rs","content":"(4,002 characters)","overspill":"Cut from this record only; the tool got it whole. Write new calls in full. [4,028 characters, 4 lines]"}
            |~ t ret line line ⏎[4,000 characters, 2 lines; 3,981 characters of it are left out here]⏎ine line 
            "#,
        );
        check_stays(&script.after(&clamp(500)), &clamp(500));
        // The whole window is the measure: 4,000 characters are a tenth of it.
        check_stays(&script, &ClampOversized { max_part: Limit::Fraction(0.12), ..clamp(0) });
        check_stays(
            &script,
            &ClampOversized { tools: ToolFilter::only(["y"]).unwrap(), ..clamp(1_100) },
        );
    }

    #[test]
    fn a_limit_is_strict_and_a_cut_never_makes_more() {
        let script = Script::new("u go\na line*4000\nu on");
        check_stays(&script, &clamp(1_000));
        assert_eq!(script.plan(&clamp(999)).edits().len(), 1);
        for ends in [2_000, 3_000, usize::MAX] {
            let whole = ClampOversized { keep_head_chars: ends, keep_tail_chars: ends, ..clamp(9) };
            check_stays(&script, &whole);
        }
        check_stays(&Script::new("u go\na line*300\nu on"), &clamp(50));
    }

    #[test]
    fn clusters_are_not_split() {
        let family = "👩‍👩‍👧‍👦"; // seven characters
        let script = Script::new(&format!("u go\na {}\nu on", family.repeat(200)));
        let after = script.after(&clamp(50));
        let text = &after.messages[1].parts[0].text;
        let (head, tail) = (text.split_once('\n').unwrap().0, text.rsplit_once('\n').unwrap().1);
        assert_eq!((head, tail), (family, family));
        assert!(text.contains("1,386 characters of it are left out here"), "{text}");
    }

    #[test]
    fn what_waits_or_is_pinned_or_an_excerpt_stays() {
        check_stays(
            &Script::new(
                r#"u go\na call x write {"content":"line*4000"}"#.replace("\\n", "\n").as_str(),
            ),
            &clamp(500),
        );
        check_stays(&Script::new("u go\na! line*4000\nu on"), &clamp(500));
        let excerpt =
            "u go\na call x f {}\nt ret x [overspill: much, stored as r/x.y; read on] line*4000";
        check_stays(&Script::new(excerpt), &clamp(500));
    }
}

mod sliding_window {
    use super::*;

    fn keep(messages: usize) -> SlidingWindow {
        SlidingWindow::new(Keep::Messages(messages))
    }

    #[test]
    fn the_task_all_instructions_and_the_end_stay() {
        let script = Script::new(
            r#"
            s be kind
            u go
            a call x f {}
            t ret x line*4000
            s be brief
            u! pinned
            a call x f {}
            t ret x line*4000
            a call y f {}
            t ret y short
            "#,
        );
        check(
            &script,
            &keep(2),
            "
            |  s sys be kind
            |  u go
            |- a call f {}
            |- t ret line*4000
            |  s sys be brief
            |+ u <receipt> Earlier in this conversation: 4 messages left, about 2,001 tokens. Check what matters against what is stored. [stored; Nothing of it is shown]
            |  u! pinned
            |- a call f {}
            |- t ret line*4000
            |  a call f {}
            |  t ret short
            ",
        );
    }

    #[test]
    fn a_return_keeps_its_call_however_far_behind() {
        let between = "u more*900\na said*900\n".repeat(4);
        let script = Script::new(&format!("u go\na call x f {{}}\n{between}t ret x late\nu on"));
        // The call is ten messages back; all that is behind it stays with it.
        check_stays(&script, &keep(2));
        let earlier = format!("u go\n{between}a call x f {{}}\nu one\nu two\nt ret x late\nu on");
        let plan = Script::new(&earlier).plan(&keep(2));
        let script = Script::new(&earlier);
        let left = script.history().after(&plan).unwrap();
        assert!((9..14).all(|at| left.has_message(crate::entry::MessageId(at))));
        assert!((1..9).all(|at| !left.has_message(crate::entry::MessageId(at))));
    }

    #[test]
    fn one_id_for_all_calls_does_not_stop_it() {
        let step = "a call call_0 f {}\nt ret call_0 line*400\n";
        let script = Script::new(&format!("u go\n{}u on", step.repeat(30)));
        let after = script.after(&keep(5));
        // The task, the receipt, two steps and what is asked.
        assert_eq!(after.messages.len(), 7);
        assert_eq!(after.history().faults(), []);
    }

    #[test]
    fn the_first_message_does_not_bring_a_return_back_without_its_call() {
        let script = Script::new(
            "
            a call x f {}
            u ret x line*4000 | the task
            a done
            u on
            ",
        );
        check(
            &script,
            &keep(1),
            "
            |- a call f {}
            |+ u <receipt> Earlier in this conversation: 2 messages left, about 1,001 tokens. Check what matters against what is stored. [stored; Nothing of it is shown]
            |~ u (ret line*4000 left) | the task
            |- a done
            |  u on
            ",
        );
    }

    #[test]
    fn what_weighs_less_than_its_receipt_stays() {
        check_stays(&Script::new("u go\na one\nu two\na three\nu four"), &keep(1));
    }

    #[test]
    fn an_orphan_leaves_like_everything_else() {
        let script = Script::new("u go\nt ret gone line*4000\na said\nu on");
        let after = script.after(&keep(1));
        assert_eq!(after.history().orphans().count(), 0);
    }

    /// Receipts count all that ever left, and there is one of them, joined to what the user says
    /// or not.
    #[test]
    fn receipts_count_every_pass() {
        let apart = Rules {
            user_first: true,
            responses_apart: true,
            returns: ReturnPlace::NextAndFirst,
            ..Rules::default()
        };
        for rules in [Rules::default(), apart] {
            let step = "a call x f {}\nt ret x line*4000\n";
            let mut script = Script::new("u go").under(rules);
            for _ in 0..33 {
                script = script.and(&step.repeat(4)).after(&keep(2));
            }
            let history = script.history();
            let notes: Vec<&str> = history
                .entries()
                .iter()
                .filter_map(|entry| Note::Receipt.body(&entry.text))
                .collect();
            assert_eq!(notes.len(), 1, "{notes:?}");
            // 33 times four steps, less the one that stays.
            assert!(
                notes[0].contains(": 262 messages left, about 131,098 tokens."),
                "{}",
                notes[0]
            );
            assert_eq!(history.faults(), []);
            check_stays(&script, &keep(2));
        }
    }

    #[test]
    fn where_a_pinned_response_would_follow_another_something_stands_between() {
        let apart = Rules { user_first: true, responses_apart: true, ..Rules::default() };
        let script = Script::new(
            "
            u go
            a line*900
            u more*900
            a! one
            u more*900
            a! two
            u more*900
            a line*900
            u on
            ",
        );
        check(
            &script.under(apart),
            &keep(1),
            "
            |  u go
            |- a line*900
            |- u more*900
            |+ u <receipt> Earlier in this conversation: 5 messages left, about 1,125 tokens. Check what matters against what is stored. [stored; Nothing of it is shown]
            |  a! one
            |- u more*900
            |+ u <receipt> (Messages that stood here left; what is said above tells where they are.)
            |  a! two
            |- u more*900
            |- a line*900
            |  u on
            ",
        );
    }

    #[test]
    fn tokens_are_a_floor_for_what_stays() {
        let script = Script::new(&format!("u go\n{}u on", "u line*400\n".repeat(20)));
        let after = |tokens| script.after(&SlidingWindow::new(Keep::Tokens(tokens)));
        // The task and the receipt, then 4 tokens less than three hundred and more.
        assert_eq!(after(300).messages.len(), 2 + 3 + 1);
        assert_eq!(after(301).messages.len(), 2 + 4 + 1);
        let until = SlidingWindow { until: Some(Limit::Tokens(1_200)), ..keep(1) };
        assert!((1_000..=1_200).contains(&script.after(&until).tokens()));
    }
}

mod clear_tool_results {
    use super::*;

    fn keep(keep_pairs: usize) -> ClearToolResults {
        ClearToolResults { keep_pairs, ..ClearToolResults::default() }
    }

    #[test]
    fn the_oldest_are_cleared_and_the_newest_stay() {
        let script = Script::new(
            r#"
            u go
            a call call_0 f {} | call call_0 g {}
            t ret call_0 line*4000 | ret call_0 line*4000
            a call call_0 f {}
            t ret call_0 line*4000
            "#,
        );
        check(
            &script,
            &keep(1),
            "
            |  u go
            |  a call f {} | call g {}
            |~ t ret [4,000 characters, 2 lines] | ret [4,000 characters, 2 lines]
            |  a call f {}
            |  t ret line*4000
            ",
        );
        let tools = ToolFilter::except(["g"]).unwrap();
        assert_eq!(script.plan(&ClearToolResults { tools, ..keep(0) }).edits().len(), 2);
        check_stays(&script, &keep(3));
    }

    #[test]
    fn what_is_smaller_than_its_marker_stays() {
        let script =
            Script::new("u go\na call x f {}\nt ret x ok\na call x f {}\nt ret x line*150");
        check_stays(&script, &keep(0));
    }

    #[test]
    fn an_excerpt_that_is_cleared_still_names_what_is_stored() {
        let handle = "run-1/x.aaaaaaaaaaaaaaaaaaaaaaaaaa";
        let script = Script::new(&format!(
            "u go\na call x f {{}}\nt ret x [overspill: 9 lines, stored as {handle}; read on] line*900\nu on"
        ));
        let after = script.after(&keep(0));
        let text = &after.messages[2].parts[0].text;
        assert!(text.ends_with(&format!("(an excerpt of {handle})")), "{text}");
        check_stays(&after, &keep(0));
    }

    #[test]
    fn a_marker_stays_however_heavy_it_is() {
        let handle = |run: &str| format!("{run}/x.aaaaaaaaaaaaaaaaaaaaaaaaaa");
        let (one, other) = (handle(&"run".repeat(30)), handle(&"r".repeat(90)));
        let marker = format!("[overspill: 9 lines, stored as {one}] (an excerpt of {other})");
        assert!(marker.len() > 240);
        check_stays(&Script::new(&format!("u go\na call x f {{}}\nt ret x {marker}")), &keep(0));
    }

    #[test]
    fn it_clears_enough_or_nothing_and_stops_at_the_low_mark() {
        let step = "a call x f {}\nt ret x line*4000\n";
        let script = Script::new(&format!("u go\n{}", step.repeat(9)));
        check_stays(&script, &ClearToolResults { min_clear_tokens: 9_000, ..keep(0) });
        let worth = ClearToolResults { min_clear_tokens: 5_000, ..keep(0) };
        assert_eq!(script.plan(&worth).edits().len(), 9);
        // From 9,000 tokens to 5,000: four do not suffice, since their markers stay.
        let until = ClearToolResults { until: Some(Limit::Fraction(0.5)), ..keep(0) };
        assert_eq!(script.plan(&until).edits().len(), 5);
    }

    #[test]
    fn arguments_are_cleared_with_their_returns() {
        let script = Script::new("u go\na call x f {\"q\":\"line*4000\"}\nt ret x line*4000\nu on");
        let both = ClearToolResults { clear_inputs: true, ..keep(0) };
        assert_eq!(script.plan(&both).edits().len(), 2);
    }
}

mod what_holds_more {
    use super::*;

    #[test]
    fn a_result_is_cleared_only_where_both_handles_weigh_less() {
        let clear = ClearToolResults { keep_pairs: 0, ..ClearToolResults::default() };
        let script = |kind: &str, chars: usize| {
            Script::new(&format!("u go\na call x f {{}}\nt {kind} x line*{chars}\nu on"))
        };
        // Between the two there is room for one handle alone.
        for (chars, alone, both) in [(180, 0, 0), (181, 1, 0), (340, 1, 0), (341, 1, 1)] {
            assert_eq!(script("ret", chars).plan(&clear).edits().len(), alone, "{chars}");
            assert_eq!(script("ret+", chars).plan(&clear).edits().len(), both, "{chars}");
        }
        let after = script("ret+", 400).after(&clear);
        let text = &after.messages[2].parts[0].text;
        assert!(text.contains("] (with what is no text, as JSON: "), "{text}");
        assert!(after.tokens() < script("ret+", 400).tokens());
        // What is shown of it would leave out more than it says.
        let clamp = ClampOversized { max_part: Limit::Tokens(100), ..ClampOversized::default() };
        check_stays(&script("ret+", 9_000), &clamp);
    }
}

mod warnings {
    use super::*;

    fn near(tokens: u64) -> LimitWarner {
        LimitWarner { max_context: Some(Limit::Tokens(tokens)), ..LimitWarner::default() }
    }

    fn warnings(script: &Script) -> Vec<String> {
        let parts = script.messages.iter().flat_map(|said| &said.parts);
        parts.filter_map(|part| Note::Warning.body(&part.text).map(str::to_owned)).collect()
    }

    #[test]
    fn one_warning_stands_at_the_end_however_often_it_is_said() {
        let mut script = Script::new("u go\nu line*3200");
        check_stays(&script, &near(2_000));
        for step in 0..20 {
            script = script.after(&near(1_100));
            let found = warnings(&script);
            assert_eq!(found.len(), 1, "{found:?}");
            assert_eq!(script.messages.last().unwrap().parts[0].kind, Kind::Text);
            assert!(Note::Warning.body(&script.messages.last().unwrap().parts[0].text).is_some());
            // The more there is, the more urgent it is; the warning itself does not count.
            let used = 800 + 30 * step;
            let urgency = if used >= 1_100 { "CRITICAL" } else { "URGENT" };
            assert!(found[0].starts_with(urgency), "{used}: {}", found[0]);
            assert!(
                found[0].contains(&format!("{} of 1,100 tokens", crate::measure::grouped(used)))
            );
            script = script.and("a line*60\nu line*60");
        }
        // Where there is room again the last one leaves, and no receipt speaks of it.
        let after = script.after(&near(100_000));
        assert_eq!(warnings(&after), Vec::<String>::new());
        assert_eq!(after.messages.len(), script.messages.len() - 1);
    }

    #[test]
    fn nobody_is_warned_who_has_nothing_to_answer() {
        check_stays(&Script::new("u line*4000\na done"), &near(1_000));
        check_stays(&Script::new("u line*4000\na call x f {}"), &near(1_000));
    }

    #[test]
    fn what_is_reported_is_what_stands_there() {
        let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
        let report = || {
            let seen = Arc::clone(&seen);
            Arc::new(ReportUsage::new(move |usage| seen.lock().unwrap().push(usage)))
        };
        let script = Script::new("u go\na call x f {}\nt ret x line*8000\nu on");
        let clear = ClearToolResults { keep_pairs: 0, ..ClearToolResults::default() };
        let tiers = vec![report() as Arc<dyn Strategy>, Arc::new(clear.clone()), report()];
        let plan = script.plan(&Tiered { tiers, target: Limit::Tokens(0) });
        assert_eq!(plan, script.plan(&clear));
        let seen = seen.lock().unwrap();
        let [before, after] = &seen[..] else { panic!("{seen:?}") };
        assert_eq!((before.used, before.window, before.is_guess), (script.tokens(), 10_000, false));
        assert!(after.used < 100 && (before.fraction - 0.2).abs() < 0.01, "{seen:?}");
    }
}

/// Drops every turn, then fails.
#[derive(Debug)]
struct Fails;

impl Strategy for Fails {
    fn edit<'f>(
        &'f self,
        draft: &'f mut Draft<'_, '_>,
    ) -> BoxFuture<'f, Result<(), StrategyError>> {
        for at in 0..draft.history().turns().len() {
            draft.drop_turn(crate::history::TurnId(at));
        }
        draft.usage.requests += 1;
        Box::pin(std::future::ready(Err(SummaryError::new("no model").into())))
    }
}

/// Counts how often it is asked.
#[derive(Debug, Default)]
struct Asked(AtomicUsize);

impl Strategy for Asked {
    fn edit<'f>(
        &'f self,
        _draft: &'f mut Draft<'_, '_>,
    ) -> BoxFuture<'f, Result<(), StrategyError>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        done()
    }
}

mod made_of_others {
    use super::*;

    fn big() -> Script {
        let step = "a call x f {}\nt ret x line*4000\n";
        Script::new(&format!("u go\n{}u on", step.repeat(9)))
    }

    fn clear() -> Arc<dyn Strategy> {
        Arc::new(ClearToolResults { keep_pairs: 0, ..ClearToolResults::default() })
    }

    #[test]
    fn a_tier_runs_only_while_it_is_needed() {
        let asked = Arc::new(Asked::default());
        let tiered = |tokens| Tiered {
            tiers: vec![Arc::clone(&asked) as Arc<dyn Strategy>, clear(), Arc::clone(&asked) as _],
            target: Limit::Tokens(tokens),
        };
        check_stays(&big(), &tiered(10_000));
        assert_eq!(asked.0.load(Ordering::Relaxed), 0);
        assert_eq!(big().plan(&tiered(2_000)).edits().len(), 9);
        assert_eq!(asked.0.load(Ordering::Relaxed), 1);
        assert_eq!(big().plan(&tiered(100)).edits().len(), 9);
        assert_eq!(asked.0.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn a_tier_that_fails_leaves_no_trace_but_its_bill() {
        let tiered = |tokens| Tiered {
            tiers: vec![Arc::new(Fails), clear()],
            target: Limit::Tokens(tokens),
        };
        big().draft(&tiered(2_000), |result, draft| {
            assert!(result.is_ok());
            assert_eq!((draft.usage.requests, draft.failures().len()), (1, 1));
            assert_eq!(draft.finish().edits().len(), 9);
        });
        // Where the others do not suffice, the failure is said.
        big().draft(&tiered(10), |_, draft| {
            assert_eq!(draft.failures().len(), 1);
            assert_eq!(draft.finish().edits().len(), 9);
        });
    }

    #[test]
    fn the_next_is_tried_where_one_fails() {
        let fallback =
            Fallback::new(Arc::new(Fails), [Arc::new(Fails) as Arc<dyn Strategy>, clear()]);
        big().draft(&fallback, |result, draft| {
            assert!(result.is_ok());
            assert_eq!(draft.usage.requests, 2);
            assert_eq!(draft.finish().edits().len(), 9);
        });
        let first = Fallback::new(clear(), [Arc::new(Fails) as Arc<dyn Strategy>]);
        assert_eq!(big().plan(&first).edits().len(), 9);
        big().draft(&Fallback::new(Arc::new(Fails), []), |result, _| assert!(result.is_err()));
    }

    #[test]
    fn a_trigger_fires_when_a_limit_is_passed() {
        let script = big();
        let tokens = script.tokens();
        let when = |when| Triggered { when, strategy: clear() };
        for stays in [
            Trigger::messages(script.messages.len()),
            Trigger::tokens(Limit::Tokens(tokens)),
            Trigger::tokens(Limit::Fraction(1.0)),
            Trigger { messages: Some(20), tokens: Some(Limit::Tokens(tokens)) },
        ] {
            check_stays(&script, &when(stays));
        }
        for fires in [
            Trigger::default(),
            Trigger::messages(script.messages.len() - 1),
            Trigger::tokens(Limit::Tokens(tokens - 1)),
            Trigger::tokens(Limit::Fraction(0.5)),
            Trigger { messages: Some(1), tokens: Some(Limit::Tokens(tokens)) },
        ] {
            assert_eq!(script.plan(&when(fires)).edits().len(), 9, "{fires:?}");
        }
    }

    #[test]
    fn a_trigger_sees_what_those_before_it_left() {
        let window = Arc::new(SlidingWindow::new(Keep::Messages(2)));
        let last = Triggered { when: Trigger::tokens(Limit::Tokens(5_000)), strategy: window };
        let both = Tiered { tiers: vec![clear(), Arc::new(last)], target: Limit::Tokens(1) };
        assert_eq!(big().plan(&both).edits().len(), 9);
        let entry = EntryId(2);
        assert!(matches!(big().history().entries()[entry.0].kind, Kind::Return { .. }));
    }
}

#[test]
fn turns_that_were_cleared_stay_where_telling_of_them_takes_more_room() {
    let script = |results: usize| {
        let turns: String = (0..results)
            .map(|turn| format!("a call c{turn} bash {{}}\nt ret c{turn} line*1000\n"))
            .collect();
        Script::new(&format!("u go\n{turns}u on\n"))
    };
    let tiers = |until| -> Tiered {
        let clear = ClearToolResults { keep_pairs: 0, ..ClearToolResults::default() };
        let slide = SlidingWindow { keep: Keep::Messages(1), ..SlidingWindow::default() };
        Tiered { tiers: vec![Arc::new(clear), Arc::new(slide)], target: Limit::Tokens(until) }
    };
    let changes = |results: usize| script(results).plan(&tiers(0)).edits().len();
    // One marker takes less room than a note; ten markers and their calls take more.
    assert_eq!(changes(1), 1);
    assert!(changes(10) > 10);
}

mod cost_gate {
    use super::*;

    /// So many turns, each of which returned so many characters and said as many words.
    fn turns(count: usize, returned: usize, said: usize) -> Script {
        let mut script = String::from("u go\n");
        for turn in 0..count {
            script.push_str(&format!("a word*{said} | call c{turn} bash {{}}\n"));
            script.push_str(&format!("t ret c{turn} line*{returned}\n"));
        }
        Script::new(&script)
    }

    /// Clears all but the newest result, where the gate lets it.
    fn gate(horizon: u32, patient_above: u64, forced_above: u64) -> CostGate {
        CostGate {
            strategy: Arc::new(ClearToolResults { keep_pairs: 1, ..ClearToolResults::default() }),
            rates: CacheRates::default(),
            horizon,
            patient_above: Limit::Tokens(patient_above),
            forced_above: Limit::Tokens(forced_above),
        }
    }

    fn passes(script: &Script, gate: &CostGate) -> bool {
        let plan = script.plan(gate);
        let ungated = script.plan(&*gate.strategy);
        assert!(!ungated.is_empty(), "there is something to clear");
        assert!(plan.is_empty() || plan.edits().len() == ungated.edits().len(), "all or nothing");
        !plan.is_empty()
    }

    const NEVER: u64 = u64::MAX;

    #[test]
    fn an_edit_waits_until_it_pays() {
        // Much goes, and little behind it is sent anew.
        assert!(passes(&turns(8, 2_000, 1), &gate(HORIZON, NEVER, NEVER)));
        // Little goes, and all the words behind it are sent anew.
        let dear = turns(8, 300, 400);
        assert!(!passes(&dear, &gate(HORIZON, NEVER, NEVER)));
        assert!(passes(&dear, &gate(1_000, NEVER, NEVER)), "in the long run it would");
        assert!(!passes(&turns(8, 2_000, 1), &gate(0, NEVER, NEVER)), "at once nothing pays");
    }

    #[test]
    fn in_a_large_request_it_may_take_as_long_as_the_session_took() {
        let large = gate(HORIZON, 1_000, NEVER);
        // The share that goes is the same, and so is how long it takes to pay.
        let passes = |turns_so_far| passes(&turns(turns_so_far, 700, 1_400), &large);
        assert!(!passes(8) && passes(80));
        assert!(!super::cost_gate::passes(&turns(80, 700, 1_400), &gate(HORIZON, NEVER, NEVER)));
    }

    #[test]
    fn where_the_window_runs_out_it_passes_whatever_it_costs() {
        let dear = turns(8, 300, 400);
        assert!(passes(&dear, &gate(0, NEVER, 1_000)));
    }

    #[test]
    fn prices_decide() {
        let script = turns(8, 500, 400);
        let at = |read, write| CostGate {
            rates: CacheRates { read, write },
            ..gate(HORIZON, NEVER, NEVER)
        };
        // Without a cache every request pays for all of it, and what is shorter is cheaper at once.
        assert!(passes(&script, &at(1.0, 1.0)));
        assert!(!passes(&script, &at(0.01, 1.25)));
    }
}
