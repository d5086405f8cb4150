//! Pictures of what each strategy does, and what holds for all of them.

pub(super) mod script;

use script::Script;

use super::*;

#[test]
fn look() {
    let s = Script::new(
        r#"
        s be kind
        u go
        a call x write {"path":"a.rs","content":"line*3000"}
        t ret x ok
        a call x read {"path":"a.rs"}
        t ret x line*4000
        a call x read {"path":"a.rs"}
        t ret x line*4000
        u on
    "#,
    );
    println!("{}", s.picture(&StoreArguments::default()));
    println!("{}", s.picture(&DeduplicateFileReads::default()));
    println!(
        "{}",
        s.picture(&ClampOversized {
            max_part: Limit::Tokens(500),
            keep_head_chars: 20,
            keep_tail_chars: 20,
            ..Default::default()
        })
    );
    println!("{}", s.picture(&SlidingWindow::new(Keep::Messages(3))));
    println!("{}", s.picture(&ClearToolResults { keep_pairs: 1, ..Default::default() }));
}
