use super::*;
use proptest::prelude::*;

fn read(text: &str) -> Result<Vec<(Text<'_>, Value<'_>)>, Invalid> {
    let mut found = Vec::new();
    members(text, &mut Vec::new(), |key, value| found.push((key, value))).map(|()| found)
}

fn text(raw: &str) -> Text<'_> {
    Text { raw, escaped: raw.contains('\\') }
}

#[test]
fn members_come_in_order_and_as_they_are_written() {
    assert_eq!(
        read(" {\t\"a\" : \"x\" ,\n\"b\":-1.50E+2,\"\\u0061\":\"\\/\",\r\"c\":[1,{\"d\":2}],\"e\":null} "),
        Ok(vec![
            (text("a"), Value::Text(text("x"))),
            (text("b"), Value::Number("-1.50E+2")),
            (text("\\u0061"), Value::Text(text("\\/"))),
            (text("c"), Value::Other),
            (text("e"), Value::Other),
        ])
    );
    assert_eq!(read("{}"), Ok(vec![]));
}

#[test]
fn only_one_whole_object_will_do() {
    for bad in
        ["", " ", "null", "1", "[]", "\"a\"", "{", "{}}", "{}{}", "{} x", "{\"a\":1", "{\"a\":", "{\"a\"", "\u{feff}{}"]
    {
        assert_eq!(read(bad), Err(Invalid), "{bad}");
    }
    for bad in [
        "{,}",
        "{\"a\":1,}",
        "{a:1}",
        "{'a':1}",
        "{1:1}",
        "{\"a\" 1}",
        "{\"a\":1 \"b\":2}",
        "{\"a\":1,,\"b\":2}",
        "\u{b}{}",
        "{\u{a0}}",
    ] {
        assert_eq!(read(bad), Err(Invalid), "{bad}");
    }
}

/// Values that JavaScript accepts, and values that it does not.
#[test]
fn values_are_judged_by_the_grammar() {
    for good in
        ["0", "-0", "10", "0.0", "1e400", "-1E-400", "1e+0001", "true", "false", "null", "[]", "{}", "[ ]", "[[],{}]"]
    {
        assert!(read(&format!("{{\"a\":{good}}}")).is_ok(), "{good}");
        assert!(read(&format!("{{\"a\":[{good}, {{\"b\" : {good}}}]}}")).is_ok(), "{good}");
    }
    let bad = [
        "01",
        "-",
        "+1",
        ".5",
        "1.",
        "1.e1",
        "1e",
        "1e+",
        "0x1",
        "NaN",
        "Infinity",
        "-Infinity",
        "1_0",
        "tru",
        "True",
        "nulll",
    ];
    let nested =
        ["[1,]", "[,1]", "[1 2]", "[1}", "{\"a\":1]", "{\"a\":1,}", "{\"a\"}", "{1:2}", "[", "[[]", "]", "{\"b\":[}"];
    for bad in bad.into_iter().chain(nested) {
        assert_eq!(read(&format!("{{\"a\":{bad}}}")), Err(Invalid), "{bad}");
        assert_eq!(read(&format!("{{\"a\":[{bad}]}}")), Err(Invalid), "{bad}");
    }
}

#[test]
fn strings_are_judged_by_the_grammar() {
    for good in [
        "",
        "\u{7f}",
        "\u{e9}\u{20ac}\u{1f600}\u{2028}",
        r#"\"\\\/\b\f\n\r\t"#,
        r"\u0000\uD800\udfff\uABcd",
        r"\uDC00\uD800",
    ] {
        assert!(read(&format!("{{\"{good}\":\"{good}\"}}")).is_ok(), "{good}");
        assert!(read(&format!("{{\"a\":[{{\"{good}\":\"{good}\"}}]}}")).is_ok(), "{good}");
    }
    for bad in [
        "\0",
        "\t",
        "\n",
        "\u{1f}",
        "a very long string before a control character\u{1}",
        r"\x",
        r"\u123",
        r"\u12G4",
        r"\u+123",
        r"\U0041",
        "\\\n",
        "\\",
    ] {
        assert_eq!(read(&format!("{{\"{bad}\":1}}")), Err(Invalid), "{bad}");
        assert_eq!(read(&format!("{{\"a\":\"{bad}\"}}")), Err(Invalid), "{bad}");
        assert_eq!(read(&format!("{{\"a\":[{{\"{bad}\":1}}]}}")), Err(Invalid), "{bad}");
    }
}

#[test]
fn nesting_has_no_limit() {
    let depth = 200_000;
    let arrays = format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
    assert!(read(&arrays).is_ok());
    let objects = format!("{{\"a\":{}0{}}}", "{\"b\":".repeat(depth), "}".repeat(depth));
    assert!(read(&objects).is_ok());
    assert!(read(&arrays.replacen(']', "", 1)).is_err());
}

#[test]
fn escapes_stand_for_utf16_units() {
    let units = |raw| text(raw).units().collect::<Vec<_>>();
    let all = units(r#"a\"\\\/\b\f\n\r\t\u0041\ud83d\ude00\ud800é😀"#);
    let mut plain: Vec<_> = "a\"\\/\u{8}\u{c}\n\r\tA\u{1f600}".encode_utf16().collect();
    plain.push(0xd800);
    plain.extend("é😀".encode_utf16());
    assert_eq!(all, plain);
    assert!(text(r"\u0064at\u0061").is("data"));
    assert!(!text(r"\u0064at").is("data"));
    assert!(!text("data ").is("data"));
}

#[test]
fn unescaping_writes_bytes() {
    let unescape = |raw| {
        let text = text(raw);
        let mut target = vec![0; text.raw_len()];
        text.unescape(&mut target).map(|length| target[..length].to_vec())
    };
    assert_eq!(unescape(r"Pz8\/Pj4\u002b").as_deref(), Some(&b"Pz8/Pj4+"[..]));
    assert_eq!(unescape(r"\u0100"), None);
    assert_eq!(unescape(""), Some(vec![]));
}

/// Something like JSON, often broken, always an object on the outside.
fn almost_json() -> impl Strategy<Value = String> {
    let tokens = vec![
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        " ",
        "\t",
        "\"\"",
        "\"a\"",
        "\"\\ud800\"",
        "\"\\u12\"",
        "\"\u{1}\"",
        "\"é\\n\"",
        "0",
        "-1",
        "1.5e3",
        "01",
        "1e",
        "true",
        "null",
        "fals",
        "\"a\":1",
        "\"b\":[",
        "\"c\":{",
        "1,",
        "],",
        "},",
    ];
    prop::collection::vec(prop::sample::select(tokens), 0..14).prop_map(|parts| format!("{{\"k\":{}}}", parts.concat()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn acceptance_equals_that_of_a_parser_of_renown(text in almost_json()) {
        let object = |text: &str| serde_json::from_str::<&serde_json::value::RawValue>(text).is_ok();
        prop_assert_eq!(read(&text).is_ok(), object(&text), "{}", text);
    }

    #[test]
    fn any_text_is_judged_without_a_panic(text in "\\{\\PC{0,40}\\}|[\\{\\}\\[\\],:\"\\\\u0-9a-f ]{0,40}") {
        let object = text.trim_start_matches([' ', '\t', '\n', '\r']).starts_with('{');
        prop_assert_eq!(read(&text).is_ok(), object && serde_json::from_str::<&serde_json::value::RawValue>(&text).is_ok());
    }
}
