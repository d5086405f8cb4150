//! The lines that carry the news: what failed, why, where, and how it ended.
//!
//! [`TELLING`] is the whole knowledge: one row for each way a common tool says it. A line that a row
//! fits opens a story, which takes some lines after it along: the place of a compiler error, the two
//! sides of an assertion, the first frame of a stack that is the user's. Stories are held in
//! bounded memory, the first and the last of each kind, and lines that differ only in their
//! numbers once.

use std::collections::hash_map::DefaultHasher;
use std::collections::{HashSet, VecDeque};
use std::hash::BuildHasherDefault;
use std::sync::OnceLock;

use regex::bytes::{Regex, RegexBuilder, RegexSet, RegexSetBuilder};

use super::Form;
use super::held::{Kept, chomp};
use super::hints::hint;
use super::identifiers::shape;

/// What a line tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// A word of trouble somewhere in a line; news only where such words are rare.
    Mention,
    /// That it went well.
    Passed,
    /// What the next lines are about: a file of a difference, a test.
    Heading,
    /// The name of what failed.
    Name,
    /// Why it failed.
    Cause,
    /// How the whole ended, in one line.
    Verdict,
}

/// A way a tool says something, and how many lines after it belong to it.
#[derive(Debug)]
struct Rule {
    kind: Kind,
    follow: u8,
    pattern: &'static str,
}

const fn rule(kind: Kind, follow: u8, pattern: &'static str) -> Rule {
    Rule { kind, follow, pattern }
}

use Kind::{Cause, Heading, Mention, Name, Passed, Verdict};

/// The strongest row that fits a line decides; between equals the first. Every row needs one of the
/// words that [`hint`] looks for.
static TELLING: &[Rule] = &[
    // How it ended: an exit status, whoever prints it.
    rule(
        Verdict,
        0,
        r"(?i)\b(exit(ed)?|return(ed)?)( with)?( non-zero)?( exit)?[ -]?(code|status)\W{1,3}-?[1-9]",
    ),
    rule(
        Verdict,
        0,
        r"(?i)^\W*(exit|exit[ -]?code|exit[ -]?status|returncode)\W{1,3}-?[1-9]\d*\W*$",
    ),
    rule(
        Verdict,
        0,
        r"(?i)^Command exited with|terminated by signal|\(signal: \d|^make(\[\d+\])?: \*\*\* ",
    ),
    // How it ended: cargo, rustc, pytest, unittest, go, jest, vitest, mocha, TAP, JUnit, Maven, Gradle, tsc, eslint.
    rule(Verdict, 0, r"^test result: FAILED"),
    rule(
        Verdict,
        0,
        r"^error: could not compile|^error: aborting due to|^error: \d+ targets? failed|^error: test failed, to rerun pass",
    ),
    rule(Verdict, 0, r"^(=+ |).*\b[1-9]\d* (failed|errors?)\b.* in [\d.]+ ?m?s"),
    rule(Verdict, 0, r"^FAILED \((\w+=\d+(, )?)+\)$"),
    rule(Verdict, 0, r"^FAIL$|^FAIL\t\S+\t"),
    rule(Verdict, 0, r"^\s*(Tests|Test Suites|Test Files)(:|\s)\s*\d+ failed"),
    rule(Verdict, 0, r"^\s*[1-9]\d* failing\b|^# fail +[1-9]"),
    rule(Verdict, 0, r"\bTests run: \d+, (Failures: [1-9]|Failures: 0, Errors: [1-9])"),
    rule(Verdict, 0, r"\bBUILD (FAILURE|FAILED)\b"),
    rule(Verdict, 0, r"^Found \d+ errors?\b|^\W*\d+ problems? \(\d+ errors?"),
    // How it ended, well.
    rule(Passed, 0, r"^test result: ok|^(=+ |)\d+ passed\b.* in [\d.]+ ?m?s|^\s*\d+ passing\b"),
    rule(Passed, 0, r"^\s*(Tests|Test Suites|Test Files)(:|\s)\s*\d+ passed"),
    rule(Passed, 0, r"(?i)\bexit(ed)?( with)?[ -]?(code|status)\W{1,3}0\b"),
    // Why: rust, its compiler, and others that point at the place in the next line.
    rule(Cause, 4, r"^\s*thread '.*' (\(\d+\) )?panicked at "),
    rule(Cause, 1, r"^error(\[E\d+\])?: "),
    // Why: C, C++, Go, TypeScript, Swift, Java, with the place first.
    rule(Cause, 0, r"^\S+?[:(]\d+([:,]\d+)?\)?:? ?-? (fatal )?error\b"),
    rule(
        Cause,
        0,
        r"^\S+\.(go|c|cc|cpp|h|hpp|s|rs|ts|tsx|java|kt|swift|proto|zig):\d+:(\d+:)? (undefined|cannot|declared and not used|.* imported and not used|missing|too many|not enough|invalid|expected|syntax error|assignment mismatch)",
    ),
    rule(Cause, 0, r"undefined reference to|ld returned \d+ exit status|cannot find -l"),
    // Why: Python's exceptions as they end a traceback, pytest's marks of the assertion.
    rule(Cause, 1, r"^E  +\S*(assert|Error|Exception|Failed|Exit)"),
    rule(Cause, 0, r"^\S+\.py:\d+: \w*(Error|Exception|Failed|Exit)\b"),
    rule(Cause, 0, r"^(\w+\.)*\w+(Error|Exception|Interrupt|Exit)(: |$)"),
    // Why: the JVM, .NET, Go, JavaScript, PHP, Ruby.
    rule(
        Cause,
        0,
        r"^\W*Exception in thread |^\s*Caused by: |^Unhandled exception|^\s*---> \S+Exception",
    ),
    rule(Cause, 0, r"^(\d\S* )*([\w$]+\.)+[\w$]+(Exception|Error)\b(: |$)"),
    rule(Cause, 2, r"^(panic|fatal error|runtime error): |^SIG[A-Z]+: "),
    rule(
        Cause,
        0,
        r"^\s*(\[ERROR\] |Uncaught |Unhandled )?(\w*AssertionError|TypeError|ReferenceError|SyntaxError|RangeError|Error)( \[\w+\])?: ",
    ),
    rule(Cause, 2, r"^\s*expect\(.*\)(\.\w+)+\(|^\s*Error: expect\("),
    rule(Cause, 1, r"^\s*(Expected|Received)( \w+)*: |^\s*AssertionError"),
    rule(Cause, 0, r"^(PHP )?(Fatal|Parse) error: |\(\w+Error\)$"),
    rule(
        Cause,
        0,
        r"^npm (ERR!|error) (code|errno|\S+ \S+)|^ERROR: (failed|executor|process)|failed to solve: ",
    ),
    rule(
        Cause,
        0,
        r"(?i)segmentation fault|core dumped|out of memory|\boom-?kill|stack overflow|no space left on device",
    ),
    rule(Cause, 0, r"^(\S+: )?(fatal|FATAL|CRITICAL): "),
    // What failed, by name.
    rule(Name, 0, r"^test .* \.\.\. (FAILED|.*\bFAILED$)"),
    rule(Name, 0, r"^(FAILED|ERROR) \S+(::|\.py)"),
    rule(Name, 0, r"^\S+::\S+ (FAILED|ERROR)\b"),
    rule(Name, 0, r"^(FAIL|ERROR): \w+"),
    rule(Name, 3, r"^\s*--- FAIL: "),
    rule(Name, 0, r"^\s*(FAIL|✗|✕|✖|×|❌) +\S"),
    rule(Name, 6, r"^\s*● .* › "),
    rule(Name, 1, r"^not ok \d+"),
    rule(Name, 0, r"\[ERROR\] .*(FAILURE!|ERROR!)"),
    // What the next lines are about.
    rule(Heading, 0, r"^_{4,} .*[A-Za-z].* _{4,}$|^---- \S+ stdout ----$"),
    rule(Heading, 0, r"^\+\+\+ (b/)?\S"),
];

/// A word of trouble; all that a line can tell that no other rule fits.
static MENTION: Rule = rule(
    Mention,
    0,
    r"\b(ERROR|FATAL|CRITICAL|PANIC|ERR!)|(?i)\b(errors?|failed|failure|fatal|exception|panic(ked)?|denied|refused|unreachable|timed out|timeout|aborted|killed|traceback|cannot|could not|unable to|not found|no such|unresolved|mismatch|conflict)\b",
);

/// The rules, compiled. Which rule fits is a slower question than whether one does, and most lines
/// with a telling word in them only mention it.
struct Matcher {
    telling: Regex,
    which: RegexSet,
    mention: Regex,
}

impl Matcher {
    fn get() -> &'static Self {
        static MATCHER: OnceLock<Matcher> = OnceLock::new();
        MATCHER.get_or_init(|| match Self::compile() {
            Ok(matcher) => matcher,
            Err(error) => unreachable!("the patterns are constants that a test compiles: {error}"),
        })
    }

    fn compile() -> Result<Self, regex::Error> {
        let one_of = |rules: &[Rule]| {
            let patterns: Vec<String> =
                rules.iter().map(|rule| format!("(?:{})", rule.pattern)).collect();
            RegexBuilder::new(&patterns.join("|")).unicode(false).build()
        };
        let patterns = TELLING.iter().map(|rule| rule.pattern);
        Ok(Self {
            telling: one_of(TELLING)?,
            which: RegexSetBuilder::new(patterns).unicode(false).build()?,
            mention: one_of(std::slice::from_ref(&MENTION))?,
        })
    }

    /// The strongest rule that fits, and between equals the first.
    fn rule(&self, line: &[u8]) -> Option<&'static Rule> {
        if self.telling.is_match(line) {
            let fits = self.which.matches(line);
            fits.iter().map(|i| &TELLING[i]).reduce(|a, b| if b.kind > a.kind { b } else { a })
        } else {
            self.mention.is_match(line).then_some(&MENTION)
        }
    }
}

/// A line is looked at this far; news stands at the front.
const LOOK: usize = 400;
/// And held this far.
const STORED: usize = 1_100;
/// Stories of a kind that are held from the front.
const FIRST: usize = 8;
/// Stories of a kind that are held from the end.
const LAST: usize = 4;
/// Shapes of headlines of a kind that are remembered; later ones count as new.
const SHAPES: usize = 512;
/// Mentions that are looked at before their rarity counts.
const MENTIONS: u64 = 64;
/// How many lines after a headline its stack is looked for.
const STACK: u16 = 64;
/// How many lines in a row within a stack need not look like frames.
const BETWEEN: u8 = 2;

/// A line with news and the lines that belong to it.
#[derive(Debug, Clone)]
pub(super) struct Story {
    pub(super) kind: Kind,
    headline: Vec<u8>,
    lines: Vec<(u64, Vec<u8>)>,
    /// Whether another story has the same headline.
    repeat: bool,
    /// How many more lines belong to it.
    follow: u8,
    /// How many more lines may hold the frame that is the user's.
    stack: u16,
    /// How many more lines in a row may be neither frames nor parts of one.
    between: u8,
}

impl Story {
    /// The headline and what belongs to it, in order.
    pub(super) fn lines(&self) -> impl Iterator<Item = Kept<'_>> {
        self.lines.iter().map(|(number, bytes)| Kept { number: *number, bytes })
    }
}

/// The stories of one kind.
#[derive(Debug, Default)]
struct Shelf {
    count: u64,
    /// The shapes of its headlines so far.
    shapes: HashSet<u64, BuildHasherDefault<DefaultHasher>>,
    first: Vec<Story>,
    last: VecDeque<Story>,
}

/// Collects the news of a payload, line by line.
#[derive(Debug, Default)]
pub(super) struct News {
    shelves: [Shelf; 6],
    open: Option<Story>,
    /// The last frame of a Python traceback that is the user's, while in one.
    traceback: Option<Option<(u64, Vec<u8>)>>,
    plain: Vec<u8>,
    lines: u64,
    code: u64,
}

impl News {
    pub(super) fn line(&mut self, number: u64, line: &[u8]) {
        self.lines += 1;
        let line = chomp(line);
        self.code += u64::from(ends_like_code(line));
        let look = &line[..line.len().min(LOOK)];
        if self.open.is_some() || self.traceback.is_some() {
            self.after(number, line, look);
        }
        if !hint(look) {
            return;
        }
        let mut plain = std::mem::take(&mut self.plain);
        let look = without_escapes(look, &mut plain);
        if look.starts_with(b"Traceback (most recent call last)") {
            self.traceback = Some(None);
        } else if let Some(rule) = Matcher::get().rule(look) {
            self.headline(rule, number, line, look);
        }
        self.plain = plain;
    }

    fn headline(&mut self, rule: &Rule, number: u64, line: &[u8], look: &[u8]) {
        // A frame of a stack, or a line of code below one, mentions what it likes.
        let within = self.open.is_some() || self.traceback.is_some();
        if within && rule.kind == Mention && matches!(look.first(), Some(b' ' | b'\t')) {
            return;
        }
        // What a story has told is not told again by a lesser one.
        if let Some(open) = &self.open
            && open.lines.last().is_some_and(|(last, _)| *last == number)
            && rule.kind <= open.kind
        {
            return;
        }
        self.close();
        let shelf = &mut self.shelves[rule.kind as usize];
        shelf.count += 1;
        if rule.kind == Mention && shelf.count > MENTIONS && !rare(shelf.count, self.lines) {
            return;
        }
        let shapes = &mut shelf.shapes;
        let shape = shape(look);
        let new =
            if shapes.len() < SHAPES { shapes.insert(shape) } else { !shapes.contains(&shape) };
        // The last verdict is the one that holds, however often it was given before; and an error
        // that is told again may be about another place.
        let place = rule.follow > 0 && shelf.first.len() < FIRST / 2;
        if !new && !place && !matches!(rule.kind, Verdict | Passed | Heading) {
            return;
        }
        let mut story = Story {
            kind: rule.kind,
            repeat: !new,
            headline: clip(line).to_vec(),
            lines: vec![(number, clip(line).to_vec())],
            follow: rule.follow,
            stack: if rule.kind == Cause { STACK } else { 0 },
            between: BETWEEN,
        };
        if let Some(frame) = self.traceback.take().flatten() {
            story.lines.insert(0, frame);
            story.stack = 0;
        }
        self.open = Some(story);
    }

    /// A line after a headline, or within a traceback.
    fn after(&mut self, number: u64, line: &[u8], look: &[u8]) {
        if let Some(frame) = &mut self.traceback {
            if look.starts_with(b"  File \"") && !library(look) {
                *frame = Some((number, clip(line).to_vec()));
            } else if !look.starts_with(b" ") && !exception(look) {
                self.traceback = None;
            }
        }
        let Some(story) = &mut self.open else { return };
        let blank = look.trim_ascii().is_empty();
        if story.follow > 0 {
            if !blank {
                story.follow -= 1;
                story.lines.push((number, clip(line).to_vec()));
            } else if story.kind == Cause {
                story.follow = 0;
            }
        } else if story.stack > 0 {
            story.stack -= 1;
            match frame(look) {
                Some(true) => {
                    story.lines.push((number, clip(line).to_vec()));
                    story.stack = 0;
                }
                Some(false) => story.between = BETWEEN,
                None if blank || look.starts_with(b" ") || look.starts_with(b"\t") => {}
                // Go names the function before the place.
                None if story.between > 0 => story.between -= 1,
                None => story.stack = 0,
            }
        }
        if story.follow == 0 && story.stack == 0 {
            self.close();
        }
    }

    fn close(&mut self) {
        let Some(story) = self.open.take() else { return };
        let shelf = &mut self.shelves[story.kind as usize];
        if shelf.first.len() < FIRST {
            shelf.first.push(story);
        } else {
            if shelf.last.len() == LAST {
                shelf.last.pop_front();
            }
            shelf.last.push_back(story);
        }
    }

    /// Whether so many lines end as lines of code do that the text is source code, or shows some.
    pub(super) fn is_code(&self) -> bool {
        self.code * 4 > self.lines
    }

    /// The stories, the most telling first.
    pub(super) fn stories(mut self, form: Form) -> Vec<Story> {
        self.close();
        // Source code speaks of errors all the time: there, only what no code looks like is news.
        let code = form == Form::Text && self.is_code();
        let mut ranked = Vec::new();
        for (kind, shelf) in
            [Mention, Passed, Heading, Name, Cause, Verdict].into_iter().zip(self.shelves)
        {
            let told: Vec<Story> = shelf
                .first
                .into_iter()
                .chain(shelf.last)
                .filter(|story| !(code && code_like(&story.headline)))
                .collect();
            if kind == Mention && (code || !rare(shelf.count, self.lines)) {
                continue;
            }
            let count = told.len();
            for (i, story) in told.into_iter().enumerate() {
                // The first cause starts the rest; the last verdict is the one that holds; and the
                // last of anything tells next to the first.
                let rank = match kind {
                    Verdict | Passed => 2 * (count - 1 - i),
                    _ if i + 1 == count && count > 1 => 1,
                    _ => 2 * i,
                } as i64;
                if kind == Passed && rank > 0 {
                    continue;
                }
                let strength = match kind {
                    Cause => 10,
                    Verdict => 9,
                    Name => 8,
                    Heading => 6,
                    Passed => 4,
                    Mention => 3,
                };
                let again = if story.repeat && kind != Heading { 5 } else { 0 };
                ranked.push((rank - strength + again, story.lines[0].0, story));
            }
        }
        ranked.sort_by_key(|(rank, number, _)| (*rank, *number));
        ranked.into_iter().map(|(_, _, story)| story).collect()
    }
}

/// Whether words of trouble stand on so few lines that they are news.
fn rare(count: u64, lines: u64) -> bool {
    count <= 3 || count * 50 <= lines
}

/// As much of a line as is held.
fn clip(line: &[u8]) -> &[u8] {
    &line[..line.len().min(STORED)]
}

fn ends_like_code(line: &[u8]) -> bool {
    match line.last() {
        Some(b'{' | b'}' | b';' | b',' | b'(') => true,
        // A call, and not a remark.
        Some(b')') => memchr::memrchr(b'(', line)
            .and_then(|open| line[..open].last())
            .is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_'),
        _ => false,
    }
}

/// Whether a line could stand in source code.
fn code_like(line: &[u8]) -> bool {
    line.starts_with(b" ") || line.starts_with(b"\t") || ends_like_code(line)
}

/// Whether a line could be the last of a Python traceback: `module.Name: message`.
fn exception(line: &[u8]) -> bool {
    let name = line.iter().take_while(|byte| byte.is_ascii_alphanumeric() || b"._".contains(byte));
    matches!(line.get(name.count()), None | Some(b':'))
}

/// Whether a line is a stack frame, and if so, whether it is the user's own.
fn frame(line: &[u8]) -> Option<bool> {
    let line = line.trim_ascii_start();
    let frame = line.starts_with(b"at ")
        || line.starts_with(b"File \"")
        || line.starts_with("❯ ".as_bytes())
        || (contains(line, b".go:") && line.starts_with(b"/"));
    frame.then(|| !library(line))
}

/// Whether a frame lies in a library, a runtime or a test framework.
fn library(frame: &[u8]) -> bool {
    const MARKS: [&[u8]; 20] = [
        b"site-packages",
        b"dist-packages",
        b"lib/python",
        b"node_modules",
        b"node:",
        b"internal/",
        b"/rustc/",
        b".cargo/registry",
        b"at java.",
        b"at javax.",
        b"at jdk.",
        b"at sun.",
        b"java.base/",
        b"org.junit",
        b"org.springframework",
        b"org.apache.",
        b"/usr/lib",
        b"/go/src/",
        b"pkg/mod",
        b"<frozen ",
    ];
    MARKS.iter().any(|mark| contains(frame, mark))
}

fn contains(line: &[u8], what: &[u8]) -> bool {
    memchr::memmem::find(line, what).is_some()
}

/// The line without terminal escapes, so that a rule for its start holds for a coloured one.
fn without_escapes<'a>(line: &'a [u8], plain: &'a mut Vec<u8>) -> &'a [u8] {
    if memchr::memchr(0x1b, line).is_none() {
        return line;
    }
    plain.clear();
    let mut bytes = line.iter();
    while let Some(&byte) = bytes.next() {
        if byte != 0x1b {
            plain.push(byte);
        } else if bytes.next() == Some(&b'[') {
            for byte in bytes.by_ref() {
                if (0x40..=0x7e).contains(byte) {
                    break;
                }
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line for each rule, and for each way it has.
    const EXAMPLES: &[&str] = &[
        "Process exited with code 137",
        "error: process didn't exit successfully: `x` (exit status: 101)",
        "subprocess.CalledProcessError: Command 'x' returned non-zero exit status 2.",
        "[exit code: 3]",
        "Command exited with non-zero status 1",
        "command terminated by signal 9",
        "process didn't exit successfully: `x` (signal: 11, SIGSEGV: invalid memory reference)",
        "make[1]: *** [Makefile:20: all] Error 1",
        "test result: FAILED. 3 passed; 1 failed; 0 ignored",
        "error: could not compile `x` (lib) due to 2 previous errors",
        "===== 1 failed, 80 passed in 2.53s =====",
        "1 failed, 80 passed in 2.53s",
        "FAILED (failures=1, errors=2)",
        "FAIL",
        "FAIL\texample.com/x\t0.4s",
        "Tests:       1 failed, 2 passed, 3 total",
        "  2 failing",
        "# fail 2",
        "[ERROR] Tests run: 3, Failures: 1, Errors: 0, Skipped: 0",
        "[INFO] BUILD FAILURE",
        "Found 2 errors in 2 files.",
        "✖ 12 problems (3 errors, 9 warnings)",
        "test result: ok. 3 passed; 0 failed",
        "===== 80 passed in 2.53s =====",
        "  12 passing (3s)",
        "      Tests  12 passed (12)",
        "exited with code 0",
        "thread 'main' (7) panicked at src/main.rs:7:5:",
        "error[E0308]: mismatched types",
        "error: expected `;`",
        "src/x.c:12:3: fatal error: y.h: No such file or directory",
        "src/x.ts(12,3): error TS2304: Cannot find name 'y'.",
        "src/x.ts:12:3 - error TS2304: Cannot find name 'y'.",
        "./x.go:12:2: declared and not used: y",
        "./x.go:4:2: \"os\" imported and not used",
        "./x.go:12:2: undefined: y",
        "./x.go:12:2: not enough arguments in call to f",
        "./x.go:12:2: too many arguments in call to f",
        "./x.go:12:2: missing return",
        "./x.go:12:2: invalid operation: x + y",
        "./x.go:12:2: assignment mismatch: 2 variables but f returns 1 value",
        "x.o: in function `main': x.c:3: undefined reference to `y'",
        "collect2: error: ld returned 1 exit status",
        "/usr/bin/ld: cannot find -lssl",
        "E       assert 1 == 2",
        "E   ModuleNotFoundError: No module named 'x'",
        "tests/test_x.py:12: AssertionError",
        "KeyboardInterrupt",
        "requests.exceptions.ConnectionError: refused",
        "Exception in thread \"main\" java.lang.IllegalStateException: x",
        "Caused by: java.net.ConnectException: x",
        "Unhandled exception. System.Exception: x",
        " ---> System.InvalidOperationException: x",
        "java.lang.IllegalStateException: x",
        "panic: runtime error: index out of range [3] with length 3",
        "SIGSEGV: segmentation violation",
        "Uncaught TypeError: x is not a function",
        "    expect(received).toBe(expected)",
        "    Expected: 1",
        "    Received: 2",
        "PHP Fatal error:  Uncaught Exception",
        "x.rb:3:in `y': undefined method `z' (NoMethodError)",
        "npm ERR! code ELIFECYCLE",
        "npm error code ERESOLVE",
        "ERROR: failed to solve: process did not complete",
        "Segmentation fault (core dumped)",
        "JavaScript heap out of memory",
        "Memory cgroup out of memory: Killed process 7",
        "thread 'main' has overflowed its stack: stack overflow",
        "write: No space left on device",
        "fatal: not a git repository",
        "test store::keeps_order ... FAILED",
        "FAILED tests/test_x.py::test_y - assert 1 == 2",
        "tests/test_x.py::test_y FAILED [ 50%]",
        "FAIL: test_y (test_x.XTest.test_y)",
        "    --- FAIL: TestX/y (0.00s)",
        " FAIL  src/x.test.ts > x > y",
        "   × x > y 5ms",
        "   ✕ y (2 ms)",
        "  ● X › y",
        "not ok 3 - y",
        "[ERROR] com.example.XTest.y -- Time elapsed: 0.01 s <<< FAILURE!",
        "________________ test_y ________________",
        "---- store::keeps_order stdout ----",
        "+++ b/src/main.rs",
        "10:00 ERROR could not connect",
        "connect timeout after 3 s",
        "it was refused",
    ];

    #[test]
    fn every_rule_has_an_example_and_every_example_a_hint() {
        let matcher = Matcher::compile().unwrap();
        let mut fitted = vec![false; TELLING.len()];
        for example in EXAMPLES {
            let line = example.as_bytes();
            assert!(matcher.rule(line).is_some(), "no rule fits {example}");
            assert!(hint(line), "nothing hints at {example}");
            // A hint does not depend on where in the line it stands.
            assert!(hint(&[b"x", line].concat()) || example.starts_with('E'), "{example}");
            for rule in &matcher.which.matches(line) {
                fitted[rule] = true;
            }
        }
        for (rule, fitted) in TELLING.iter().zip(fitted) {
            assert!(fitted, "no example fits {rule:?}");
        }
    }

    #[test]
    fn most_lines_give_no_hint() {
        for line in [
            "   Compiling serde v1.0.0",
            "2024-05-01T10:00:00Z INFO worker-3 handled request 7 in 3 ms",
            "    let handle = store.write(&bytes).await;",
            "PASS src/x.test.ts",
            "✓ handles case 3 (2 ms)",
            "test grid::case ... ok",
            "",
        ] {
            assert!(!hint(line.as_bytes()), "{line}");
        }
    }
}
