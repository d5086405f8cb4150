use data_encoding::{BASE64, BASE64URL_NOPAD};
use proptest::prelude::*;

use super::*;

/// What each model counts for a picture of this size and detail.
#[track_caller]
fn check(width: u32, height: u32, detail: Option<&str>, counts: &[(&str, u64)]) {
    for (model, tokens) in counts {
        let rule = ImageRule::of(model, Provider::default());
        assert_eq!(rule.tokens(Some(Pixels { width, height }), detail), *tokens, "{model}");
    }
}

/// The examples of the provider's guide.
#[test]
fn openai_counts_patches() {
    check(1_024, 1_024, Some("high"), &[("gpt-6-astra", 1_229), ("gpt-5.4", 1_229)]);
    check(2_048, 2_048, Some("high"), &[("gpt-6-astra", 3_000), ("gpt-5.4-mini", 3_000)]);
    check(4_096, 512, Some("high"), &[("gpt-6-astra", 2_458)]);
    // 33 by 44 patches, of a budget of 1,536.
    check(1_800, 2_400, None, &[("o4-mini", 2_498), ("gpt-5-mini-2025-08-07", 1_743)]);
    // A photo of 12 megapixels: what the provider reported for it.
    check(4_032, 3_024, None, &[("gpt-6-astra", 14_364), ("gpt-5.5-2026-04-23", 11_868)]);
    check(4_032, 3_024, Some("high"), &[("openai:gpt-6-astra", 2_942)]);
    check(2_560, 1_440, Some("high"), &[("gpt-6-astra", 2_931)]);
    check(1_920, 1_080, None, &[("gpt-5.6-sol", 2_448), ("us.openai.gpt-5.4-v1:0", 2_448)]);
    check(1_920, 1_080, Some("low"), &[("gpt-5.6-sol", 173), ("gpt-5.4", 2_448)]);
}

#[test]
fn openai_counts_tiles() {
    check(1_024, 1_024, Some("high"), &[("gpt-4o", 765), ("gpt-4.1-2025-04-14", 765)]);
    check(2_048, 4_096, None, &[("gpt-4o", 1_105), ("gpt-5-2025-08-07", 910), ("o3", 975)]);
    check(4_096, 8_192, Some("low"), &[("azure/gpt-4o", 85), ("gpt-5.1", 70)]);
    check(512, 512, None, &[("gpt-4o-mini", 8_500), ("chatgpt-4o-latest", 255)]);
}

#[test]
fn claude_counts_patches_of_two_tiers() {
    let (standard, high) = ("claude-sonnet-4-5-20250929", "anthropic/claude-opus-4.7");
    check(200, 200, None, &[(standard, 64), (high, 64)]);
    check(1_000, 1_000, None, &[(standard, 1_296), (high, 1_296)]);
    check(1_092, 1_092, None, &[(standard, 1_521), (high, 1_521)]);
    // Scaled to 1456 by 819, and not at all.
    check(1_920, 1_080, None, &[(standard, 52 * 30), (high, 69 * 39)]);
    // Scaled to 924 by 1307.
    check(1_075, 1_520, None, &[(standard, 33 * 47), (high, 39 * 55)]);
    // Scaled to 1372 by 891 and 2380 by 1546; to 1344 by 896 and 2352 by 1568.
    check(2_576, 1_673, None, &[(standard, 49 * 32), (high, 85 * 56)]);
    check(6_000, 4_000, None, &[(standard, 48 * 32), (high, 84 * 56)]);
    // The longer side decides.
    check(10_000, 100, None, &[(standard, 56), (high, 92)]);
    for (model, tokens) in [
        ("claude-3-5-sonnet-20241022", 1_560),
        ("claude-opus-4-20250514", 1_560),
        ("us.anthropic.claude-haiku-4-5-20251001-v1:0", 1_560),
        ("claude-sonnet-4-6", 1_560),
        ("claude-4.5-sonnet", 1_560),
        ("claude-opus-5", 2_691),
        ("claude-haiku-5-5", 2_691),
        ("claude-mythos-preview", 2_691),
        ("databricks-claude-fable-5-1", 2_691),
    ] {
        check(1_920, 1_080, None, &[(model, tokens)]);
    }
}

#[test]
fn gemini_counts_tiles_and_then_levels() {
    let (tiles, fixed) = ("google-gla:gemini-2.5-pro", "gemini-3.1-pro-preview");
    check(384, 384, None, &[(tiles, 258), (fixed, 1_120)]);
    check(960, 540, None, &[(tiles, 6 * 258), (fixed, 1_120)]);
    check(4_000, 4_000, None, &[(tiles, 16 * 258), (fixed, 1_120)]);
    check(4_000, 4_000, Some("MEDIA_RESOLUTION_LOW"), &[(tiles, 64), (fixed, 280)]);
    check(4_000, 4_000, Some("medium"), &[(tiles, 258), (fixed, 560)]);
    check(4_000, 4_000, Some("ultra_high"), &[(fixed, 2_240)]);
}

/// A name that tells no family counts by the format of the request, a picture of unknown size as
/// a screenshot.
#[test]
fn what_is_not_known_has_a_default() {
    let of = |provider, size| ImageRule::of("my-model", provider).tokens(size, None);
    assert_eq!(of(Provider::OpenAi, None), 2_448);
    assert_eq!(of(Provider::Anthropic, None), 2_691);
    assert_eq!(of(Provider::Google, None), 1_120);
    assert_eq!(ImageRule::of("claude-opus-5", Provider::OpenAi).tokens(None, None), 2_691);
    assert_eq!(ImageRule::of("gpt-35-turbo", Provider::OpenAi).tokens(None, Some("?")), 2_448);
}

fn png(width: u32, height: u32) -> Vec<u8> {
    let size = [width.to_be_bytes(), height.to_be_bytes()].concat();
    [b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", &*size, b"\x08\x06\0\0\0"].concat()
}

fn gif(width: u16, height: u16) -> Vec<u8> {
    [b"GIF89a", &*[width.to_le_bytes(), height.to_le_bytes()].concat(), b"\xf7\0\0"].concat()
}

/// With a preview of `before` bytes in front of the frame, as cameras write it.
fn jpeg(width: u16, height: u16, before: &[u16]) -> Vec<u8> {
    let mut file = b"\xff\xd8".to_vec();
    for length in before {
        file.extend(b"\xff\xe1");
        file.extend((length + 2).to_be_bytes());
        file.extend(vec![0xff; usize::from(*length)]);
    }
    file.extend(b"\xff\xff\xff\xc4\0\x03\0\xff\xc2\0\x11\x08");
    file.extend([height.to_be_bytes(), width.to_be_bytes()].concat());
    file
}

fn webp(kind: u8, body: &[u8]) -> Vec<u8> {
    [b"RIFF\0\0\0\0WEBPVP8", &[kind][..], b"\0\0\0\0", body].concat()
}

#[test]
fn sizes_are_read_from_headers() {
    let read = |file: &[u8]| size(&BASE64.encode(file)).map(|size| (size.width, size.height));
    assert_eq!(read(&png(1_920, 1_080)), Some((1_920, 1_080)));
    assert_eq!(read(&gif(320, 240)), Some((320, 240)));
    assert_eq!(read(&jpeg(4_032, 3_024, &[])), Some((4_032, 3_024)));
    assert_eq!(read(&jpeg(4_032, 3_024, &[65_000, 65_001, 65_002])), Some((4_032, 3_024)));
    assert_eq!(read(&webp(b' ', b"\0\0\0\x9d\x01\x2a\x40\x06\xb0\x04")), Some((1_600, 1_200)));
    assert_eq!(read(&webp(b'L', b"\x2f\x3f\xc6\x2b\x01")), Some((1_600, 1_200)));
    assert_eq!(read(&webp(b'X', b"\0\0\0\0\x3f\x06\0\xaf\x04\0")), Some((1_600, 1_200)));

    for nothing in [&b""[..], b"BM", b"<svg/>", b"\xff\xd8\xff\xd9", b"RIFF\0\0\0\0WEBPVP8Q"] {
        assert_eq!(read(nothing), None);
    }
    assert_eq!(read(&png(0, 1_080)), None);
    assert_eq!(read(&jpeg(1, 1, &[3; 1_100])), None, "too many segments");
    assert_eq!(size("no base64 at all, é"), None);
    let address = format!("data:image/png;base64,{}", BASE64.encode(&png(7, 9)));
    assert_eq!(size(&address), Some(Pixels { width: 7, height: 9 }));
}

proptest! {
    #[test]
    fn any_size_is_read_back(width in 1_u16.., height in 1_u16.., before in any::<Option<u16>>()) {
        let before: Vec<u16> = before.into_iter().map(|length| length.min(60_000)).collect();
        let expected = Some(Pixels { width: width.into(), height: height.into() });
        for file in [png(width.into(), height.into()), gif(width, height), jpeg(width, height, &before)] {
            prop_assert_eq!(size(&BASE64.encode(&file)), expected);
            prop_assert_eq!(size(&BASE64URL_NOPAD.encode(&file)), expected);
        }
    }

    #[test]
    fn no_file_and_no_text_is_too_strange(
        start in prop::sample::select(vec![
            &b""[..], b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", b"GIF89a", b"\xff\xd8", b"RIFF\0\0\0\0WEBPVP8",
        ]),
        rest in prop::collection::vec(prop_oneof![Just(0xff), any::<u8>()], 0..64),
        text in any::<String>(),
    ) {
        let file = [start, &rest].concat();
        let base64 = BASE64.encode(&file);
        let whole = size(&base64);
        // More bytes never change what fewer said.
        for end in (0..base64.len()).step_by(5) {
            let part = size(&base64[..end]);
            prop_assert!(part.is_none() || part == whole);
        }
        size(&text);
        size(&format!("/9j/{text}"));
    }

    #[test]
    fn every_size_has_a_count(
        width in any::<u32>(), height in any::<u32>(), small in 1_u32..5_000,
        model in prop::sample::select(vec![
            "gpt-4o", "gpt-4o-mini", "gpt-4.1-mini", "gpt-5-nano", "gpt-5.2", "gpt-5.4", "gpt-5.5",
            "gpt-5.6-sol", "gpt-6-astra", "o1", "o4-mini", "claude-opus-4-1", "claude-opus-5",
            "gemini-2.5-pro", "gemini-3.8-flash", "qwen3-vl",
        ]),
        detail in prop::sample::select(vec![None, Some("low"), Some("high"), Some("original")]),
    ) {
        let rule = ImageRule::of(model, Provider::default());
        for (width, height) in [(width, height), (small, height), (small, 1), (small, small)] {
            let size = Pixels { width, height };
            let turned = Pixels { width: height, height: width };
            let tokens = rule.tokens(Some(size), detail);
            // The largest count there is: eight tiles of gpt-4o-mini.
            prop_assert!(tokens <= 2_833 + 8 * 5_667, "{tokens} for {size:?}");
            prop_assert!(tokens > 0 || width == 0 || height == 0);
            prop_assert_eq!(tokens, rule.tokens(Some(turned), detail));
        }
    }
}
