//! What an excerpt shows of the outputs of common tools, and what it promises for any bytes.

use proptest::prelude::*;

use super::*;

const CHARS: usize = 1_000;

/// Half a megabyte of `noise` with `story` in its middle, and its excerpt.
fn log(noise: impl Fn(usize) -> String, story: &str, end: &str) -> String {
    let mut text = String::new();
    let mut line = 0;
    let mut fill = |text: &mut String, to: usize| {
        while text.len() < to {
            text.push_str(&noise(line));
            text.push('\n');
            line += 1;
        }
    };
    fill(&mut text, 300_000);
    text.push_str(story);
    text.push('\n');
    fill(&mut text, 500_000);
    text.push_str(end);
    let excerpt = excerpt(text.as_bytes(), CHARS);
    assert!(excerpt.text.chars().count() <= CHARS);
    excerpt.text
}

#[track_caller]
fn assert_tells(excerpt: &str, news: &[&str]) {
    for line in news {
        assert!(excerpt.contains(line), "{line:?} is missing in:\n{excerpt}");
    }
}

#[test]
fn cargo_test() {
    let excerpt = log(
        |i| format!("test grid::tests::case_{i} ... ok"),
        "test store::tests::keeps_order ... FAILED

failures:

---- store::tests::keeps_order stdout ----

thread 'store::tests::keeps_order' (4711) panicked at crates/store/src/lib.rs:42:9:
assertion `left == right` failed: in order
  left: [1, 2]
 right: [2, 1]
note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace


failures:
    store::tests::keeps_order

test result: FAILED. 4999 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.41s

error: test failed, to rerun pass `-p store --lib`",
        "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n",
    );
    assert_tells(
        &excerpt,
        &[
            "test store::tests::keeps_order ... FAILED\n",
            "panicked at crates/store/src/lib.rs:42:9:\n",
            "assertion `left == right` failed: in order\n",
            "  left: [1, 2]\n",
            " right: [2, 1]\n",
            "test result: FAILED. 4999 passed; 1 failed",
            "error: test failed, to rerun pass `-p store --lib`",
        ],
    );
}

#[test]
fn rustc() {
    let excerpt = log(
        |i| format!("   Compiling crate-{i} v0.{i}.0"),
        "error[E0308]: mismatched types
  --> crates/store/src/lib.rs:17:20
   |
17 |     let n: usize = name;
   |            -----   ^^^^ expected `usize`, found `&str`

error[E0432]: unresolved import `crate::gone`
 --> src/main.rs:3:5

error: could not compile `store` (lib) due to 2 previous errors",
        "warning: build failed, waiting for other jobs to finish...\n",
    );
    assert_tells(
        &excerpt,
        &[
            "error[E0308]: mismatched types\n",
            "  --> crates/store/src/lib.rs:17:20\n",
            "error[E0432]: unresolved import `crate::gone`\n",
            " --> src/main.rs:3:5\n",
            "error: could not compile `store` (lib) due to 2 previous errors",
        ],
    );
}

#[test]
fn pytest() {
    let excerpt = log(
        |i| {
            format!(
                "tests/test_grid.py::test_case[{i}] PASSED                       [ {}%]",
                i % 100
            )
        },
        "=================================== FAILURES ===================================
_______________________________ test_keeps_order _______________________________

    def test_keeps_order():
        store = Store()
>       assert store.items() == [2, 1]
E       assert [1, 2] == [2, 1]
E         
E         At index 0 diff: 1 != 2

tests/test_store.py:12: AssertionError
=========================== short test summary info ============================
FAILED tests/test_store.py::test_keeps_order - assert [1, 2] == [2, 1]
================== 1 failed, 5210 passed, 3 warnings in 12.03s ==================",
        "Coverage XML written to file coverage.xml\n",
    );
    assert_tells(
        &excerpt,
        &[
            "E       assert [1, 2] == [2, 1]\n",
            "tests/test_store.py:12: AssertionError\n",
            "FAILED tests/test_store.py::test_keeps_order - assert [1, 2] == [2, 1]\n",
            "1 failed, 5210 passed, 3 warnings in 12.03s",
        ],
    );
}

#[test]
fn unittest() {
    let excerpt = log(
        |i| format!("test_case_{i} (test_grid.GridTest.test_case_{i}) ... ok"),
        "======================================================================
FAIL: test_keeps_order (test_store.StoreTest.test_keeps_order)
----------------------------------------------------------------------
Traceback (most recent call last):
  File \"/home/me/project/test_store.py\", line 12, in test_keeps_order
    self.assertEqual(store.items(), [2, 1])
  File \"/usr/lib/python3.11/unittest/case.py\", line 873, in assertEqual
    assertion_func(first, second, msg=msg)
AssertionError: Lists differ: [1, 2] != [2, 1]

----------------------------------------------------------------------
Ran 5211 tests in 3.210s

FAILED (failures=1)",
        "done\n",
    );
    assert_tells(
        &excerpt,
        &[
            "FAIL: test_keeps_order (test_store.StoreTest.test_keeps_order)\n",
            "  File \"/home/me/project/test_store.py\", line 12, in test_keeps_order\n",
            "AssertionError: Lists differ: [1, 2] != [2, 1]\n",
            "FAILED (failures=1)\n",
        ],
    );
    assert!(!excerpt.contains("unittest/case.py"), "a frame of the library in:\n{excerpt}");
}

#[test]
fn python_traceback_through_libraries() {
    let excerpt = log(
        |i| format!("2024-05-01 10:00:{:02} INFO worker handled request {i}", i % 60),
        "Traceback (most recent call last):
  File \"/app/service/main.py\", line 30, in <module>
    run()
  File \"/app/service/queue.py\", line 88, in run
    client.publish(message)
  File \"/usr/local/lib/python3.12/site-packages/kombu/messaging.py\", line 190, in publish
    return _publish(body)
  File \"/usr/local/lib/python3.12/site-packages/kombu/connection.py\", line 556, in _ensured
    return fun(*args, **kwargs)
kombu.exceptions.OperationalError: [Errno 111] Connection refused",
        "2024-05-01 10:01:00 INFO bye\n",
    );
    assert_tells(
        &excerpt,
        &[
            "  File \"/app/service/queue.py\", line 88, in run\n",
            "kombu.exceptions.OperationalError: [Errno 111] Connection refused\n",
        ],
    );
}

#[test]
fn go_test() {
    let excerpt = log(
        |i| format!("--- PASS: TestGrid/case_{i} (0.00s)"),
        "--- FAIL: TestKeepsOrder (0.02s)
    store_test.go:31: items() = [1 2], want [2 1]
FAIL
FAIL\texample.com/project/store\t0.412s",
        "ok  \texample.com/project/grid\t0.120s\n",
    );
    assert_tells(
        &excerpt,
        &[
            "--- FAIL: TestKeepsOrder (0.02s)\n",
            "    store_test.go:31: items() = [1 2], want [2 1]\n",
            "FAIL\texample.com/project/store\t0.412s\n",
        ],
    );
}

#[test]
fn go_panic() {
    let excerpt = log(
        |i| format!("level=info msg=\"request handled\" n={i}"),
        "panic: runtime error: index out of range [3] with length 3

goroutine 1 [running]:
runtime.panicIndex(0x3, 0x3)
\t/usr/local/go/src/runtime/panic.go:115 +0x7b
main.pick(...)
\t/home/me/project/main.go:12 +0x1d
main.main()
\t/home/me/project/main.go:7 +0x25
exit status 2",
        "level=info msg=stopped\n",
    );
    assert_tells(
        &excerpt,
        &[
            "panic: runtime error: index out of range [3] with length 3\n",
            "\t/home/me/project/main.go:12 +0x1d\n",
            "exit status 2\n",
        ],
    );
}

#[test]
fn jest() {
    let excerpt = log(
        |i| format!("    ✓ handles case {i} (2 ms)"),
        "  ● Store › keeps the order of items

    expect(received).toEqual(expected) // deep equality

    Expected: [2, 1]
    Received: [1, 2]

      10 |   const store = new Store();
    > 11 |   expect(store.items()).toEqual([2, 1]);
         |                         ^

      at Object.<anonymous> (src/store.test.ts:11:25)

Test Suites: 1 failed, 40 passed, 41 total
Tests:       1 failed, 5210 passed, 5211 total",
        "Ran all test suites.\n",
    );
    assert_tells(
        &excerpt,
        &[
            "  ● Store › keeps the order of items\n",
            "    Expected: [2, 1]\n",
            "    Received: [1, 2]\n",
            "src/store.test.ts:11:25",
            "Tests:       1 failed, 5210 passed, 5211 total\n",
        ],
    );
}

#[test]
fn vitest() {
    let excerpt = log(
        |i| format!(" ✓ src/grid-{i}.test.ts (3 tests) 4ms"),
        " ❯ src/store.test.ts (2 tests | 1 failed) 8ms
   × Store > keeps the order of items 5ms
     → expected [ 1, 2 ] to deeply equal [ 2, 1 ]

 FAIL  src/store.test.ts > Store > keeps the order of items
AssertionError: expected [ 1, 2 ] to deeply equal [ 2, 1 ]
 ❯ src/store.test.ts:11:25

 Test Files  1 failed | 40 passed (41)
      Tests  1 failed | 5210 passed (5211)",
        "   Duration  1.2s\n",
    );
    assert_tells(
        &excerpt,
        &[
            " FAIL  src/store.test.ts > Store > keeps the order of items\n",
            "AssertionError: expected [ 1, 2 ] to deeply equal [ 2, 1 ]\n",
            " ❯ src/store.test.ts:11:25\n",
            "      Tests  1 failed | 5210 passed (5211)\n",
        ],
    );
}

#[test]
fn tsc() {
    let excerpt = log(
        |i| format!("TSFILE: /home/me/project/dist/grid-{i}.js"),
        "src/store.ts(12,7): error TS2322: Type 'string' is not assignable to type 'number'.
src/main.ts:3:10 - error TS2305: Module '\"./gone\"' has no exported member 'gone'.

Found 2 errors in 2 files.",
        "TSFILE: done\n",
    );
    assert_tells(
        &excerpt,
        &[
            "src/store.ts(12,7): error TS2322: Type 'string' is not assignable to type 'number'.\n",
            "src/main.ts:3:10 - error TS2305: Module '\"./gone\"' has no exported member 'gone'.\n",
            "Found 2 errors in 2 files.\n",
        ],
    );
}

#[test]
fn make_and_gcc() {
    let excerpt = log(
        |i| format!("cc -O2 -Wall -c -o build/grid_{i}.o src/grid_{i}.c"),
        "src/store.c: In function 'keep':
src/store.c:12:9: error: 'ordr' undeclared (first use in this function); did you mean 'order'?
   12 |         ordr = 1;
make[1]: *** [Makefile:20: build/store.o] Error 1",
        "make[1]: Leaving directory '/home/me/project'\nmake: *** [Makefile:7: all] Error 2\n",
    );
    assert_tells(
        &excerpt,
        &[
            "src/store.c:12:9: error: 'ordr' undeclared (first use in this function)",
            "make[1]: *** [Makefile:20: build/store.o] Error 1\n",
            "make: *** [Makefile:7: all] Error 2",
        ],
    );
}

#[test]
fn maven() {
    let excerpt = log(
        |i| format!("[INFO] Running com.example.grid.Case{i}Test"),
        "[ERROR] Tests run: 3, Failures: 1, Errors: 0, Skipped: 0, Time elapsed: 0.05 s <<< FAILURE! -- in com.example.StoreTest
[ERROR] com.example.StoreTest.keepsOrder -- Time elapsed: 0.01 s <<< FAILURE!
org.opentest4j.AssertionFailedError: expected: <[2, 1]> but was: <[1, 2]>
\tat org.junit.jupiter.api.AssertionUtils.fail(AssertionUtils.java:55)
\tat java.base/java.lang.reflect.Method.invoke(Method.java:580)
\tat com.example.StoreTest.keepsOrder(StoreTest.java:21)

[INFO] BUILD FAILURE",
        "[INFO] Finished at: 2024-05-01T10:00:00Z\n",
    );
    assert_tells(
        &excerpt,
        &[
            "[ERROR] com.example.StoreTest.keepsOrder -- Time elapsed: 0.01 s <<< FAILURE!\n",
            "org.opentest4j.AssertionFailedError: expected: <[2, 1]> but was: <[1, 2]>\n",
            "\tat com.example.StoreTest.keepsOrder(StoreTest.java:21)\n",
            "[INFO] BUILD FAILURE\n",
        ],
    );
}

#[test]
fn java_exception() {
    let excerpt = log(
        |i| format!("10:00:{:02}.123 INFO  [main] c.e.Service - handled {i}", i % 60),
        "Exception in thread \"main\" java.lang.IllegalStateException: queue is closed
\tat java.base/java.util.Objects.requireNonNull(Objects.java:259)
\tat com.example.Queue.push(Queue.java:88)
\tat com.example.Main.main(Main.java:9)
Caused by: java.net.ConnectException: Connection refused
\t... 3 more",
        "10:01:00.000 INFO  [main] c.e.Service - bye\n",
    );
    assert_tells(
        &excerpt,
        &[
            "Exception in thread \"main\" java.lang.IllegalStateException: queue is closed\n",
            "\tat com.example.Queue.push(Queue.java:88)\n",
            "Caused by: java.net.ConnectException: Connection refused\n",
        ],
    );
}

#[test]
fn npm_and_node() {
    let excerpt = log(
        |i| format!("npm http fetch GET 200 https://registry.npmjs.org/pkg-{i} 12ms (cache hit)"),
        "npm error code ERESOLVE
npm error ERESOLVE unable to resolve dependency tree
npm error Found: react@18.3.1
npm error Could not resolve dependency:
npm error peer react@\"^17.0.0\" from old-widget@2.1.0
/home/me/project/build.js:7
    throw new TypeError('no entry');
          ^

TypeError: no entry
    at node:internal/modules/cjs/loader:1404:14
    at /home/me/project/node_modules/runner/index.js:3:1
    at Object.<anonymous> (/home/me/project/build.js:7:11)",
        "npm http fetch GET 200 https://registry.npmjs.org/last 1ms\n",
    );
    assert_tells(
        &excerpt,
        &[
            "npm error code ERESOLVE\n",
            "npm error ERESOLVE unable to resolve dependency tree\n",
            "TypeError: no entry\n",
            "    at Object.<anonymous> (/home/me/project/build.js:7:11)\n",
        ],
    );
}

#[test]
fn docker() {
    let excerpt = log(
        |i| format!("#8 {}.{:03} Get:{i} http://deb.debian.org/debian bookworm/main amd64 pkg{i} [12 kB]", i / 1000, i % 1000),
        "#9 [4/6] RUN cargo build --release
#9 12.34 error: linker `cc` not found
#9 ERROR: process \"/bin/sh -c cargo build --release\" did not complete successfully: exit code: 101
ERROR: failed to solve: process \"/bin/sh -c cargo build --release\" did not complete successfully: exit code: 101",
        "#8 DONE\n",
    );
    assert_tells(
        &excerpt,
        &[
            "#9 12.34 error: linker `cc` not found\n",
            "did not complete successfully: exit code: 101\n",
        ],
    );
}

#[test]
fn an_exit_status_anywhere() {
    for status in [
        "Process exited with code 137",
        "command terminated by signal 9",
        "[exit code: 3]",
        "subprocess.CalledProcessError: Command '['ls']' returned non-zero exit status 2.",
        "Error: Process completed with exit code 1.",
    ] {
        let excerpt = log(|i| format!("step {i} of many is done"), status, "all steps done\n");
        assert_tells(&excerpt, &[status]);
    }
}

#[test]
fn a_lone_error_in_a_log() {
    let excerpt = log(
        |i| format!("2024-05-01T10:00:{:02}Z INFO worker-{} handled request {i}", i % 60, i % 8),
        "2024-05-01T10:00:31Z ERROR worker-3 could not reach 10.0.0.7:5432",
        "",
    );
    assert_tells(
        &excerpt,
        &["2024-05-01T10:00:31Z ERROR worker-3 could not reach 10.0.0.7:5432\n"],
    );
}

#[test]
fn the_same_warning_5000_times_hides_no_error() {
    let excerpt = log(
        |i| format!("src/grid.c:{i}:5: error: unused variable 'x{i}' [-Werror=unused-variable]"),
        "src/store.c:12:9: error: 'ordr' undeclared (first use in this function)",
        "make: *** [Makefile:7: all] Error 2\n",
    );
    assert_tells(
        &excerpt,
        &["src/store.c:12:9: error: 'ordr' undeclared (first use in this function)\n"],
    );
}

#[test]
fn source_code_full_of_errors_is_no_news() {
    let file: String = (0..400)
        .map(|i| format!("fn step_{i}() -> Result<(), Error> {{\n    return Err(Error::failed(\"error {i}\"));\n}}\n"))
        .collect();
    let mut news = News::default();
    for (line, number) in file.split_inclusive('\n').zip(0..) {
        news.line(number, line.as_bytes());
    }
    assert!(news.stories(Form::Text).is_empty());
}

#[test]
fn a_difference_shows_its_files() {
    let patch: String = (0..200)
        .map(|i| format!("diff --git a/src/file_{i}.rs b/src/file_{i}.rs\n--- a/src/file_{i}.rs\n+++ b/src/file_{i}.rs\n@@ -1 +1 @@\n-let a = {i};\n+let b = {i};\n"))
        .collect();
    let excerpt = excerpt(patch.as_bytes(), CHARS).text;
    assert_tells(&excerpt, &["8: +++ b/src/file_1.rs\n", "1190: +++ b/src/file_198.rs\n"]);
}

#[test]
fn json_in_one_line_shows_a_record_and_its_shape() {
    let records: Vec<String> = (0..5_000)
        .map(|i| format!("{{\"id\":{i},\"name\":\"item-{i}\",\"tags\":[\"a\"],\"owner\":{{\"login\":\"user{}\"}}}}", i % 7))
        .collect();
    let json = format!("[{}]", records.join(","));
    let excerpt = excerpt(json.as_bytes(), CHARS).text;
    assert_tells(
        &excerpt,
        &[
            "{\"id\":0,\"name\":\"item-0\",\"tags\":[\"a\"],\"owner\":{\"login\":\"user0\"}}",
            "[its shape: [5000 of {id: int, name: str, tags: [1 of \"a\"], owner: {login: str}}]]\n",
            "lines not shown",
        ],
    );
}

#[test]
fn a_lone_error_in_lines_of_json() {
    let excerpt = log(
        |i| format!("{{\"level\":\"info\",\"msg\":\"request handled\",\"n\":{i}}}"),
        "{\"level\":\"error\",\"msg\":\"could not reach 10.0.0.7:5432\",\"n\":7}",
        "",
    );
    assert_tells(
        &excerpt,
        &[
            "lines of {level: \"info\"|\"error\", msg: str, n: int}]",
            ": {\"level\":\"error\",\"msg\":\"could not reach 10.0.0.7:5432\",\"n\":7}",
        ],
    );
}

#[test]
fn binary_data_says_what_it_is() {
    let mut elf = b"\x7fELF\x02\x01\x01\0".to_vec();
    for i in 0..5_000_u32 {
        elf.extend(i.to_le_bytes());
    }
    elf.extend(b"\0libssl.so.3\0usage: %s [-v] FILE\0");
    elf.extend([0; 500]);
    let excerpt = excerpt(&elf, CHARS).text;
    assert_tells(
        &excerpt,
        &[
            "[ELF program, not text; it starts:]\n\\x7fELF\\x02\\x01\\x01\\x00",
            "usage: %s [-v] FILE",
            "libssl.so.3",
        ],
    );
    assert!(!excerpt.contains('\0'));
}

#[test]
fn what_fits_is_shown_whole_and_nothing_is_shown_of_nothing() {
    let text = "one\ntwo\n\nfour";
    assert_eq!(excerpt(text.as_bytes(), 100), Excerpt { text: text.into(), shown_lines: 4 });
    assert_eq!(excerpt(text.as_bytes(), 0), Excerpt::default());
    assert_eq!(excerpt(b"", 100), Excerpt::default());
}

#[test]
fn a_long_line_is_cut_between_graphemes() {
    let family = "👨‍👩‍👧‍👦";
    for chars in 20..60 {
        let shown = excerpt(family.repeat(100).as_bytes(), chars).text;
        let kept = shown.strip_suffix("…[cut]").unwrap();
        assert_eq!(kept.chars().count() % family.chars().count(), 0, "{shown}");
    }
}

/// The numbered lines of an excerpt are those lines.
fn check_numbers(payload: &[u8], excerpt: &str) {
    let lines: Vec<_> = crate::lines::lines(payload).collect();
    for shown in excerpt.lines() {
        let Some((number, line)) = shown.split_once(": ") else { continue };
        let Some(original) = number.parse().ok().and_then(|n: usize| lines.get(n)) else {
            continue;
        };
        let original = String::from_utf8_lossy(held::chomp(original.bytes)).into_owned();
        let line = line.strip_suffix("…[cut]").unwrap_or(line);
        assert!(original.starts_with(line), "line {number} is not {line:?} but {original:?}");
    }
}

proptest! {
    #[test]
    fn an_excerpt_keeps_to_its_size_and_its_numbers(
        lines in prop::collection::vec("[ -~]{0,60}|error: [a-z]{1,9}Name|fn [a-z]{3,9}_[a-z]{3,9}\\(\\)", 0..200),
        chars in 0_usize..1_500,
    ) {
        let text = lines.iter().zip(0..).map(|(line, i)| format!("{i:04}{line}\n")).collect::<String>();
        let shown = excerpt(text.as_bytes(), chars);
        prop_assert!(shown.text.chars().count() <= chars);
        prop_assert_eq!(&shown, &excerpt(text.as_bytes(), chars));
        if chars >= 200 && shown.text.contains(" not shown") {
            check_numbers(text.as_bytes(), shown.text.rsplit_once("[from line").map_or("", |(middle, _)| middle));
        }
    }

    #[test]
    fn any_bytes_have_an_excerpt(
        bytes in prop::collection::vec(
            prop_oneof![any::<u8>(), prop::sample::select(&b"\n\n\"{}[]:,\\ 0aE\x1b\xe2\x9c\x95"[..])],
            0..3_000,
        ),
        chars in 0_usize..1_000,
    ) {
        let shown = excerpt(&bytes, chars);
        prop_assert!(shown.text.chars().count() <= chars);
        prop_assert!(shown.shown_lines <= crate::lines::lines(&bytes).count() as u64);
        prop_assert!(shown.text.is_empty() || chars > 0);
    }
}
