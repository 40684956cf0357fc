use super::*;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;

/// What a line comes to, payload included.
#[derive(Debug, PartialEq)]
enum Read {
    Data(u64, Stream, Vec<u8>),
    Heartbeat,
    Exit(Option<f64>, Option<String>),
}

fn read(line: impl AsRef<[u8]>) -> Result<Read, Fault> {
    let mut buffer = b"what the frame before left".to_vec();
    Ok(match parse(line.as_ref(), &mut Scratch::default())? {
        Frame::Data(frame) => {
            let stream = frame.decode(&mut buffer)?;
            Read::Data(frame.seq, stream, buffer)
        }
        Frame::Heartbeat => Read::Heartbeat,
        Frame::Exit(exit) => Read::Exit(exit.code, exit.signal.map(|units| String::from_utf16_lossy(&units))),
    })
}

fn data(seq: u64, bytes: &[u8]) -> Result<Read, Fault> {
    Ok(Read::Data(seq, Stream::Stdout, bytes.to_vec()))
}

fn exit(code: f64) -> Result<Read, Fault> {
    Ok(Read::Exit(Some(code), None))
}

fn with_payload(json: &str) -> Result<Read, Fault> {
    read(format!(r#"{{"type":"data","seq":1,"stream":"stdout","data_base64":{json}}}"#))
}

fn with_seq(json: &str) -> Result<Read, Fault> {
    read(format!(r#"{{"type":"data","seq":{json},"stream":"stdout","data_base64":"aGk="}}"#))
}

fn exit_with(members: &str) -> Result<Read, Fault> {
    read(format!(r#"{{"type":"exit"{members}}}"#))
}

#[test]
fn frames_of_every_kind() {
    assert_eq!(with_payload(r#""aGk=""#), data(1, b"hi"));
    let stderr = read(r#"{"data_base64":"","stream":"stderr","seq":7,"type":"data"}"#);
    assert_eq!(stderr, Ok(Read::Data(7, Stream::Stderr, vec![])));
    assert_eq!(read("{\"type\":\"heartbeat\",\"at\":1}\r"), Ok(Read::Heartbeat));
    assert_eq!(exit_with(r#","exit_code":3"#), exit(3.0));
    assert_eq!(exit_with(r#","signal":"SIGKILL""#), Ok(Read::Exit(None, Some("SIGKILL".into()))));
    assert_eq!(
        read(r#"{"type":"error","error":"output_offset_expired","oldest_available_seq":9}"#),
        Err(Fault::OutputEvicted)
    );
    assert_eq!(read(r#"{"type":"error","error":"output_offset\u005fexpired"}"#), Err(Fault::OutputEvicted));
    for error in [r#","error":"gone""#, r#","error":null"#, r#","error":["output_offset_expired"]"#, ""] {
        assert_eq!(read(format!(r#"{{"type":"error"{error}}}"#)), Err(Fault::StreamError));
    }
}

#[test]
fn types_that_nobody_knows() {
    for line in [
        r#"{"type":"resize"}"#,
        r#"{"type":null}"#,
        r#"{"type":["data"]}"#,
        r#"{"type":"Data"}"#,
        r#"{"type":"data\u0000"}"#,
        "{}",
    ] {
        assert_eq!(read(line), Err(Fault::EventUnknown), "{line}");
    }
    assert_eq!(read(r#"{"__proto__":{"type":"heartbeat"}}"#), Err(Fault::EventUnknown));
}

#[test]
fn lines_that_are_no_object() {
    for line in
        ["", "{broken", "[1]", "null", "1", "\"data\"", "{}{}", "\u{feff}{}", "{\"type\":\"heartbeat\"", "\u{a0}{}"]
    {
        assert_eq!(read(line), Err(Fault::FrameInvalid), "{line}");
    }
    // Invalid after all that matters, too.
    assert_eq!(read("{\"type\":\"data\",\"seq\":0,\"x\":\"\t\"}"), Err(Fault::FrameInvalid));
}

#[test]
fn numbers_are_safe_integers_from_one_in_any_form() {
    for (json, seq) in [
        ("1", 1),
        ("1.0", 1),
        ("2e0", 2),
        ("20e-1", 2),
        ("0.3E+1", 3),
        ("9007199254740991", 9007199254740991),
        ("9.007199254740991e15", 9007199254740991),
        ("9007199254740991.4", 9007199254740991),
        ("1.00000000000000000001", 1),
        ("10e-00000000000000000000001", 1),
    ] {
        assert_eq!(with_seq(json), data(seq, b"hi"), "{json}");
    }
    for json in [
        "0",
        "-0",
        "-1",
        "0.9",
        "1.5",
        "9007199254740992",
        "9007199254740993",
        "9007199254740991.5",
        "1e400",
        "1e-400",
        "-1e400",
        "1e99999999999999999999999",
        "\"1\"",
        "null",
        "true",
        "[1]",
        "{}",
    ] {
        assert_eq!(with_seq(json), Err(Fault::SequenceInvalid), "{json}");
    }
    assert_eq!(with_seq(&format!("1{}e-10000", "0".repeat(10_000))), data(1, b"hi"));
    assert_eq!(read(r#"{"type":"data"}"#), Err(Fault::SequenceInvalid));
    assert_eq!(read(r#"{"type":"data","seq":0,"stream":"nowhere","data_base64":"***"}"#), Err(Fault::SequenceInvalid));
}

#[test]
fn stream_and_payload_are_judged_no_sooner_than_they_are_decoded() {
    let mut scratch = Scratch::default();
    let frame = parse(br#"{"type":"data","seq":4,"stream":"nowhere","data_base64":3}"#, &mut scratch).unwrap();
    let Frame::Data(frame) = frame else { panic!("{frame:?}") };
    assert_eq!(frame.seq, 4);
    assert_eq!(frame.decode(&mut Vec::new()), Err(Fault::OutputInvalid));
}

#[test]
fn streams_are_named_exactly() {
    let with_stream = |json| read(format!(r#"{{"type":"data","seq":1,"stream":{json},"data_base64":"aGk="}}"#));
    assert_eq!(with_stream(r#""std\u006fut""#), data(1, b"hi"));
    for json in [r#""pty""#, r#""STDOUT""#, r#""stdout ""#, "null", "1"] {
        assert_eq!(with_stream(json), Err(Fault::OutputInvalid), "{json}");
    }
    assert_eq!(read(r#"{"type":"data","seq":1,"data_base64":"aGk="}"#), Err(Fault::OutputInvalid));
}

#[test]
fn payloads_are_base64_as_javascript_has_it() {
    assert_eq!(with_payload(r#""""#), data(1, b""));
    assert_eq!(with_payload(r#""aGl=""#), data(1, b"hi"), "bits before the padding need not be zero");
    assert_eq!(with_payload(r#""aP==""#), data(1, b"h"));
    assert_eq!(with_payload(r#""Pz8\/Pj4+""#), data(1, b"???>>>"));
    assert_eq!(with_payload(r#""\u0061Gk\u003d""#), data(1, b"hi"));
    for json in [
        r#""aGk""#,
        r#""aG""#,
        r#""a""#,
        r#""a===""#,
        r#""=""#,
        r#""====""#,
        r#""aGk=aGk=""#,
        r#""-_8=""#,
        r#""aG k""#,
        r#""aGk=\n""#,
        r#""aGk\u0141""#,
        r#""aGk\u00e9""#,
        r#""aGké""#,
        r#""aGk\ud800""#,
        r#""aG==k""#,
        "null",
        "1",
        "[\"aGk=\"]",
    ] {
        assert_eq!(with_payload(json), Err(Fault::OutputInvalid), "{json}");
    }
    assert_eq!(read(r#"{"type":"data","seq":1,"stream":"stdout"}"#), Err(Fault::OutputInvalid));
}

#[test]
fn integer_codes_stand_in_any_form() {
    for (json, code) in
        [("7.0", 7.0), ("1e3", 1000.0), ("-1", -1.0), ("1e300", 1e300), ("9007199254740993", 9007199254740992.0)]
    {
        assert_eq!(exit_with(&format!(r#","exit_code":{json}"#)), exit(code), "{json}");
    }
    for json in ["1.5", "1e400", "\"0\"", "null", "true", "[0]"] {
        assert_eq!(exit_with(&format!(r#","exit_code":{json}"#)), Err(Fault::ExitStatusMissing), "{json}");
        let killed = Ok(Read::Exit(None, Some("SIGTERM".into())));
        assert_eq!(exit_with(&format!(r#","exit_code":{json},"signal":"SIGTERM""#)), killed, "{json}");
    }
    assert_eq!(exit_with(""), Err(Fault::ExitStatusMissing));
}

#[test]
fn signals_alone_must_be_named_like_one() {
    for signal in ["SIGKILL", "SIGRTMIN1", "SIG9", r"SI\u0047HUP"] {
        assert!(exit_with(&format!(r#","signal":"{signal}""#)).is_ok(), "{signal}");
    }
    for signal in
        ["sigkill", "SIG", "KILL", "", "SIGKILL ", r"SIGKILL\n", "SIGTERM+1", "xSIGTERM", "SIGÉ", r"SIG\u0141"]
    {
        assert_eq!(exit_with(&format!(r#","signal":"{signal}""#)), Err(Fault::ExitStatusMissing), "{signal}");
        // Beside an integer code it is passed on.
        assert!(
            exit_with(&format!(r#","exit_code":0,"signal":"{signal}""#))
                .is_ok_and(|read| matches!(read, Read::Exit(_, Some(_))))
        );
    }
    for json in ["null", "9", "[\"SIGKILL\"]"] {
        assert_eq!(exit_with(&format!(r#","exit_code":0,"signal":{json}"#)), exit(0.0));
    }
    let Ok(Frame::Exit(exit)) = parse(br#"{"type":"exit","exit_code":1,"signal":"a\ud800"}"#, &mut Scratch::default())
    else {
        panic!()
    };
    assert_eq!(exit.signal, Some(vec![0x61, 0xd800]));
}

#[test]
fn a_status_that_is_no_frame_is_judged_alike() {
    let judge = |json: serde_json::Value| exit_status(json.get("exit_code"), json.get("signal"));
    use serde_json::json;
    assert_eq!(judge(json!({"exit_code": 3, "signal": null})), Exit::new(Some(3.0), None));
    assert_eq!(judge(json!({"exit_code": 1.5, "signal": "SIGKILL"})).map(|exit| exit.code), Ok(None));
    assert_eq!(judge(json!({"exit_code": null, "signal": "kill"})), Err(Fault::ExitStatusMissing));
    assert_eq!(judge(json!({})), Err(Fault::ExitStatusMissing));
}

#[test]
fn whatever_javascript_accepts_around_it_is_accepted() {
    let hi = data(1, b"hi");
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for extra in [
        r#""a":"\ud800""#,
        r#""\udfff":1"#,
        r#""n":1e99999"#,
        r#""m":{"a":[1,{"b":null}]}"#,
        r#""__proto__":null"#,
        &format!(r#""d":{deep}"#),
    ] {
        let line = format!(
            r#" {{ {extra} , "typ\u0065" : "d\u0061ta" ,"seq":1,"stream":"stdout","data_base64":"aGk=",{extra}}} "#
        );
        assert_eq!(read(&line), hi, "{:.80}", line);
    }
    let repeated = r#"{"type":"exit","seq":9,"type":"data","\u0073eq":1,"stream":1,"stream":"stdout","data_base64":null,"data_base64":"aGk="}"#;
    assert_eq!(read(repeated), hi);
    assert_eq!(read(r#"{"type":"data","seq":1,"seq":null}"#), Err(Fault::SequenceInvalid));
}

#[test]
fn bytes_that_are_not_utf8_count_as_replacement_characters() {
    assert_eq!(read(b"{\"type\":\"heartbeat\",\"\xff\":\"\xc0\xaf\xe2\x82\"}"), Ok(Read::Heartbeat));
    assert_eq!(read(b"{\"type\":\"heartbeat\"\xff}"), Err(Fault::FrameInvalid));
    // A cut character does not take the quote with it.
    assert_eq!(read(b"{\"type\":\"heartbeat\",\"a\":\"\xf0\x9f\"}"), Ok(Read::Heartbeat));
    assert_eq!(
        read(b"{\"type\":\"data\",\"seq\":1,\"stream\":\"stdout\",\"data_base64\":\"aGk=\xff\"}"),
        Err(Fault::OutputInvalid)
    );
    let exit = read(b"{\"type\":\"exit\",\"exit_code\":0,\"signal\":\"\xe2\x82\"}");
    assert_eq!(exit, Ok(Read::Exit(Some(0.0), Some("\u{fffd}".into()))));
}

/// The regular expression, by hand: groups of four, only the last one padded.
fn is_base64(text: &str) -> bool {
    let body = text.strip_suffix("==").or_else(|| text.strip_suffix('=')).unwrap_or(text);
    text.len().is_multiple_of(4) && body.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/".contains(&byte))
}

proptest! {
    #[test]
    fn payloads_round_trip_plain_and_escaped(bytes in prop::collection::vec(any::<u8>(), 0..400), seq in 1..1u64 << 53) {
        let payload = STANDARD.encode(&bytes);
        for payload in [payload.clone(), payload.replace('/', "\\/"), payload.replace('=', "\\u003D").replace('A', "\\u0041")] {
            let line = format!(r#"{{"type":"data","seq":{seq},"stream":"stdout","data_base64":"{payload}"}}"#);
            prop_assert_eq!(read(line), data(seq, &bytes));
        }
    }

    #[test]
    fn what_is_no_base64_is_refused(start in prop::sample::select(vec![0, 15, 64, 200]), text in "[Az09+/=_é -]{0,9}|[Ab]{0,5}={0,3}") {
        let text = format!("{}{text}", "AbCd".repeat(start));
        prop_assert_eq!(with_payload(&format!("\"{text}\"")).is_ok(), is_base64(&text));
        prop_assert_eq!(with_payload(&format!("\"{}\"", text.replace('+', "\\u002b"))).is_ok(), is_base64(&text));
    }

    #[test]
    fn any_bytes_are_judged_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..60), at in 0..60usize) {
        let mut line = br#"{"type":"data","seq":1,"stream":"stdout","data_base64":"aGk="}"#.to_vec();
        let at = at.min(line.len());
        line.splice(at..at, bytes.iter().copied());
        let _ = read(&bytes);
        let _ = read(&line);
    }
}
