use super::*;
use proptest::prelude::*;

fn decode<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut decoder = Decoder::new();
    let mut text = String::new();
    for chunk in chunks {
        decoder.push(chunk).for_each(|piece| text.push_str(piece));
    }
    text + decoder.finish()
}

/// Pieces of valid and broken UTF-8.
fn utf8ish() -> impl Strategy<Value = Vec<u8>> {
    let pieces = vec![
        &b"a"[..],
        b"plain text ",
        b"\xc3\xa9",
        b"\xe2\x82\xac",
        b"\xf0\x9f\x98\x80",
        b"\xef\xbb\xbf",
        b"\x80",
        b"\xbf",
        b"\xc0",
        b"\xc2",
        b"\xe0",
        b"\xe0\xa0",
        b"\xed\xa0\x80",
        b"\xe2\x82",
        b"\xf0",
        b"\xf0\x9f",
        b"\xf0\x9f\x98",
        b"\xf0\x80",
        b"\xf4\x90",
        b"\xf5",
        b"\xff",
    ];
    prop::collection::vec(prop::sample::select(pieces), 0..20).prop_map(|parts| parts.concat())
}

#[test]
fn a_character_may_be_cut_anywhere() {
    for text in ["\u{e9}", "1 \u{20ac} 2", "\u{1f600}", "\u{feff}x"] {
        assert_eq!(decode(text.as_bytes().chunks(1)), text);
    }
}

#[test]
fn every_maximal_part_is_one_replacement() {
    for (bytes, text) in [
        (&b"a\xffb\xc0c"[..], "a\u{fffd}b\u{fffd}c"),
        (b"\xe2\x82", "\u{fffd}"),
        (b"\xe2\x82a", "\u{fffd}a"),
        (b"\xf0\x9f\x98\xf0\x9f\x98\x80", "\u{fffd}\u{1f600}"),
        (b"\xed\xa0\x80", "\u{fffd}\u{fffd}\u{fffd}"),
        (b"\xf0\x80\x80\x80", "\u{fffd}\u{fffd}\u{fffd}\u{fffd}"),
        (b"\xf4\x90", "\u{fffd}\u{fffd}"),
    ] {
        assert_eq!(decode([bytes]), text);
        assert_eq!(decode(bytes.chunks(1)), text);
    }
}

#[test]
fn an_end_gives_one_replacement_once() {
    let mut decoder = Decoder::new();
    assert_eq!(decoder.push(b"a\xf0\x9f\x98").collect::<Vec<_>>(), ["a"]);
    assert_eq!((decoder.finish(), decoder.finish()), ("\u{fffd}", ""));
}

#[test]
fn valid_text_is_borrowed_also_after_a_cut_character() {
    let mut decoder = Decoder::new();
    assert_eq!(decoder.push(b"\xe2").count(), 0);
    let bytes = b"\x82\xac and more";
    let pieces: Vec<_> = decoder.push(bytes).collect();
    assert_eq!(pieces, ["\u{20ac}", " and more"]);
    assert_eq!(pieces[1].as_ptr(), bytes[2..].as_ptr());
    assert_eq!(decoder.push(b"").count(), 0);
}

#[test]
fn cuts_keep_characters_whole() {
    assert_eq!(split_units("abc", 3), ("abc", ""));
    assert_eq!(split_units("abc", 2), ("ab", "c"));
    assert_eq!(split_units("\u{20ac}\u{20ac}", 1), ("\u{20ac}", "\u{20ac}"));
    assert_eq!(split_units("a\u{1f600}", 2), ("a", "\u{1f600}"));
    assert_eq!(split_units("\u{1f600}", 1), ("", "\u{1f600}"));
    assert_eq!(split_units("\u{1f600}b", 2), ("\u{1f600}", "b"));
    assert_eq!(split_units("", 0), ("", ""));
}

#[test]
fn text_is_one_byte_a_character_where_it_can_be() {
    assert_eq!(JsText::from(""), JsText::Latin1(vec![]));
    assert_eq!(JsText::from("a\u{ff}"), JsText::Latin1(vec![0x61, 0xff]));
    assert_eq!(JsText::from("a\u{100}"), JsText::Utf16(vec![0x61, 0x100]));
    let text = JsText::from("a\u{ff}\u{1f600}");
    assert_eq!(text, JsText::Utf16(vec![0x61, 0xff, 0xd83d, 0xde00]));
    assert_eq!((text.len(), text.is_empty()), (4, false));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn chunking_changes_nothing(bytes in utf8ish(), cuts in prop::collection::vec(0..200usize, 0..8)) {
        let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(bytes.len())).chain([0, bytes.len()]).collect();
        cuts.sort_unstable();
        let whole = encoding_rs::UTF_8.decode_without_bom_handling(&bytes).0;
        prop_assert_eq!(decode([&bytes[..]]), whole.as_ref());
        prop_assert_eq!(decode(bytes.chunks(1)), whole.as_ref());
        prop_assert_eq!(decode(cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]])), whole.as_ref());
    }

    #[test]
    fn counts_cuts_and_conversions_equal_the_standard_librarys(
        parts in prop::collection::vec((prop::sample::select(vec!["a", "\u{e9}", "\u{20ac}", "\u{1f600}", "xyz\u{1f600}"]), 1..3000usize), 0..5),
        at in 0.0..1.1f64,
    ) {
        let text: String = parts.into_iter().map(|(text, count)| text.repeat(count)).collect();
        let units: Vec<u16> = text.encode_utf16().collect();
        prop_assert_eq!(utf16_len(&text), units.len());

        let max = (units.len() as f64 * at) as usize;
        let (head, rest) = split_units(&text, max);
        prop_assert_eq!(head.len() + rest.len(), text.len());
        let length = head.encode_utf16().count();
        prop_assert!(length <= max);
        prop_assert!(rest.chars().next().is_none_or(|next| length + next.len_utf16() > max));

        let (head, rest) = Counted::from(text.as_str()).split_bytes(max);
        prop_assert_eq!((head, rest), (Counted::from(head.text), Counted::from(rest.text)));
        prop_assert_eq!([head.text, rest.text].concat(), text.as_str());
        prop_assert!(head.text.len() <= max && (rest.text.is_empty() || head.text.len() + 4 > max));

        match JsText::from(text.as_str()) {
            JsText::Latin1(bytes) => prop_assert!(bytes.into_iter().map(u16::from).eq(units)),
            JsText::Utf16(converted) => {
                prop_assert!(units.iter().any(|&unit| unit > 0xff));
                prop_assert!(converted == units);
            }
        }
    }
}
