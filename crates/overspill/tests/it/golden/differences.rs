//! Where this library differs from the reference on purpose, and why. A case that is listed but
//! does not differ fails its test.

/// Cases that differ for one reason.
pub(super) struct Difference {
    pub(super) reason: &'static str,
    pub(super) cases: &'static [&'static str],
}

pub(super) const BANDS: &[Difference] = &[Difference {
    reason: "two bands with one threshold are refused: one of them could never be chosen",
    cases: &["b3", "b4", "b6"],
}];

pub(super) const CONTEXT_WINDOW: &[Difference] = &[
    Difference {
        reason: "the reference rounds what the provider publishes: 1,047,576 and 1,048,576",
        cases: &["openai:gpt-4.1", "gemini-2.0-flash"],
    },
    Difference {
        reason: "the reference does not know `google-gla` for a provider",
        cases: &["google-gla:gemini-2.5-pro"],
    },
    Difference {
        reason: "the reference has the window of an earlier model of that name",
        cases: &["deepseek:deepseek-chat"],
    },
    Difference {
        reason: "a window of 1,000,000 is opened by a header; without it the provider takes 200,000",
        cases: &["openrouter:anthropic/claude-sonnet-4.5"],
    },
];

pub(super) const TRUNCATE: &[Difference] = &[
    Difference {
        reason: "the reference cuts through a grapheme cluster",
        cases: &[
            "zwj/head/1",
            "zwj/tail/120",
            "zwj/tail/500",
            "zwj/head_tail/60",
            "zwj/head_tail/120",
            "zwj/head_tail/500",
            "flags/head/500",
            "flags/tail/500",
            "flags/head_tail/120",
            "flags/head_tail/500",
            "combining/head/1",
            "combining/head/1000",
            "combining/head_tail/1",
            "combining/head_tail/120",
            "combining/head_tail/500",
            "combining/head_tail/1000",
            "zalgo/head/1",
            "zalgo/head/60",
            "zalgo/head/120",
            "zalgo/head/500",
            "zalgo/head/1000",
            "zalgo/head_tail/1",
            "zalgo/head_tail/500",
        ],
    },
    Difference {
        reason: "the reference cuts between CR and LF",
        cases: &[
            "crlf/head_tail/1000",
            "crlf/head_tail/1001",
            "mixed/head/110/k2",
            "mixed/head/20/k1000000000000",
            "mixed/tail/20/k1",
            "mixed/tail/20/k5",
            "mixed/tail/20/k1000000000000",
            "mixed/head_tail/20/k1",
            "mixed/head_tail/20/k2",
            "mixed/head_tail/110/k2",
            "mixed/head_tail/131/k2",
            "mixed/head_tail/300/k2",
            "mixed/head_tail/20/k5",
            "mixed/head_tail/110/k5",
        ],
    },
];

pub(super) const STRIP_ANSI: &[Difference] = &[
    Difference {
        reason: "the reference knows no private and no colon parameters, nor every final byte",
        cases: &["a4", "a5", "a37"],
    },
    Difference {
        reason: "the reference knows no charset selection and no C1 controls",
        cases: &["a6", "a7", "a15", "a31"],
    },
    Difference {
        reason: "the reference does not end an OSC with ST, so that a later BEL takes the text between",
        cases: &["a9", "a10"],
    },
    Difference {
        reason: "the reference lets a sequence cross a line end and take text of the next line",
        cases: &["a41"],
    },
    Difference {
        reason: "the reference leaves what is cut off at the end of the text",
        cases: &["a14", "a16", "a18"],
    },
];

/// Each case names the style that differs.
pub(super) const JSON: &[Difference] = &[
    Difference {
        reason: "an integer beyond 64 bits is a floating-point number, as `serde_json` reads it",
        cases: &["j7/compact", "j7/indented", "j7/lines"],
    },
    Difference {
        reason: "a text is a text payload and never written as JSON; a string that comes as a \
                 structured value stays one",
        cases: &[
            "j20/compact",
            "j21/compact",
            "j22/compact",
            "j23/compact",
            "j24/compact",
            "j26/compact",
            "j62/compact",
        ],
    },
    Difference {
        reason: "one line each also where the value is no list: every line is a JSON value",
        cases: &[
            "j39/lines",
            "j40/lines",
            "j41/lines",
            "j42/lines",
            "j43/lines",
            "j44/lines",
            "j46/lines",
            "j48/lines",
            "j49/lines",
            "j50/lines",
            "j51/lines",
            "j52/lines",
            "j57/lines",
            "j60/lines",
        ],
    },
];

pub(super) const READ: &[Difference] = &[
    Difference {
        reason: "only `\\n` ends a line",
        cases: &[
            "seps/(0, 200, False, None)",
            "seps/(2, 2, False, None)",
            "seps/(3, 2, True, None)",
            "seps/(1, 1, False, None)",
        ],
    },
    Difference {
        reason: "with a pattern, `offset` is the line to search from, so that a match's number can be gone on from",
        cases: &[
            "lines2000/(1, 2, False, '1')",
            "combining/(1, 2, False, '1')",
            "json_lines/(1, 2, False, '1')",
        ],
    },
    Difference {
        reason: "a line is at most 2,000 characters, so that a long one can be read on",
        cases: &[
            "long_line/(3, 2, True, None)",
            "long_line/(1, 1, False, None)",
            "long_lines/(3, 2, True, None)",
            "exact50k/(2, 2, False, None)",
            "json_1line/(2, 2, False, None)",
            "json_1line/(3, 2, True, None)",
            "json_1line/(1, 2, False, '1')",
        ],
    },
    Difference {
        reason: "bytes that are not UTF-8 show as `\\xNN`, and only `\\n` ends a line",
        cases: &[
            "bin/(0, 3, False, None)",
            "bin/(0, 2, True, None)",
            "bin/(0, 1, True, None)",
            "bin/(1, 2, False, '1')",
            "bin/(0, 2, True, '1')",
            "bad_utf8/(0, 3, False, None)",
            "bad_utf8/(2, 2, False, None)",
            "bad_utf8/(0, 2, True, None)",
            "bad_utf8/(0, 5000, False, None)",
            "bad_utf8/(0, 10, False, 'e')",
            "bad_utf8/(0, 1, False, None)",
            "bom16/(0, 200, False, None)",
            "bom16/(0, 3, False, None)",
            "bom16/(0, 2, True, None)",
            "bom16/(0, 1, True, None)",
            "bom16/(0, 10, False, '')",
            "bom16/(0, 1, False, None)",
            "bom16/(1, 1, False, None)",
            "lone/(0, 200, False, None)",
            "lone/(0, 3, False, None)",
            "lone/(0, 2, True, None)",
            "lone/(0, 10, False, '')",
            "lone/(0, 1, False, None)",
        ],
    },
];
