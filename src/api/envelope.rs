//! The JSON answer to a request: its envelope `{"status":"success","data":{…}}` and what is in it. Takes what JavaScript's
//! `JSON.parse` takes; what was asked for and what the data mean, the callers know.

use serde_json::{Map, Value, value::RawValue};

use crate::error::Fault;

/// A value never holds more nesting than this: parsing and dropping it recur.
const MAX_DEPTH: usize = 100;

/// Stands for what a value cannot hold. Whoever looks for text, a number or a confirmation finds none.
const UNREADABLE: &str = "false";

/// The data of a success.
pub(super) fn open(body: &[u8]) -> Result<Map<String, Value>, Fault> {
    // Like every reader of the web's JSON: bytes that are not UTF-8 count as U+FFFD, a byte order mark as nothing.
    let (text, _) = encoding_rs::UTF_8.decode_with_bom_removal(body);
    let Some(Value::Object(mut envelope)) = parse(&text) else { return Err(Fault::JsonInvalid) };
    if envelope.get("status").and_then(Value::as_str) != Some("success") {
        return Err(Fault::ResponseUnsuccessful);
    }
    match envelope.remove("data") {
        Some(Value::Object(data)) => Ok(data),
        _ => Err(Fault::ResponseInvalid),
    }
}

fn parse(json: &str) -> Option<Value> {
    serde_json::from_str(json).ok().or_else(|| {
        // The whole grammar, but nothing is converted and nothing recurs.
        let valid: &RawValue = serde_json::from_str(json).ok()?;
        serde_json::from_str(&tamed(valid.get())).ok()
    })
}

/// Valid JSON without what `JSON.parse` takes and serde_json does not: halves of surrogate pairs become U+FFFD; numbers past
/// the range of a double, and what is nested too deep, become unreadable.
fn tamed(json: &str) -> String {
    let mut tamed = String::with_capacity(json.len());
    let mut depth = 0;
    let mut rest = json;
    while let Some(&first) = rest.as_bytes().first() {
        let (token, after) = rest.split_at(token_len(rest));
        rest = after;
        if matches!(first, b']' | b'}') {
            depth -= 1;
        }
        // Deeper than the limit there is only what `UNREADABLE` already stands for.
        let kept = depth <= MAX_DEPTH;
        match first {
            b'[' | b'{' => {
                if kept {
                    tamed.push_str(if depth < MAX_DEPTH { token } else { UNREADABLE });
                }
                depth += 1;
            }
            b']' | b'}' if depth == MAX_DEPTH => {}
            _ if !kept => {}
            b'"' => push_paired(&mut tamed, token),
            b'-' | b'0'..=b'9' if token.parse().is_ok_and(f64::is_infinite) => tamed.push_str(UNREADABLE),
            _ => tamed.push_str(token),
        }
    }
    tamed
}

/// The length of the string, the number or the single character that valid JSON goes on with.
fn token_len(json: &str) -> usize {
    let bytes = json.as_bytes();
    match bytes[0] {
        b'"' => {
            let mut at = 1;
            while bytes[at] != b'"' {
                at += if bytes[at] == b'\\' { 2 } else { 1 };
            }
            at + 1
        }
        b'-' | b'0'..=b'9' => {
            let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
            bytes.iter().take_while(|byte| is_part(byte)).count()
        }
        _ => 1,
    }
}

/// Appends a string with U+FFFD for each escaped half of a surrogate pair.
fn push_paired(target: &mut String, string: &str) {
    let unit = |escape: &str| u16::from_str_radix(escape.strip_prefix("\\u")?.get(..4)?, 16).ok();
    let mut rest = string;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        target.push_str(before);
        let length = match (unit(escape), escape.get(6..).and_then(unit)) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => 12,
            (Some(_), _) => 6,
            (None, _) => 2,
        };
        let (escape, after) = escape.split_at(length);
        let half = length == 6 && matches!(unit(escape), Some(0xD800..=0xDFFF));
        target.push_str(if half { "\u{fffd}" } else { escape });
        rest = after;
    }
    target.push_str(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_envelope_is_judged_from_the_outside_in() {
        for (body, fault) in [
            ("", Fault::JsonInvalid),
            ("<html>", Fault::JsonInvalid),
            ("[1]", Fault::JsonInvalid),
            (r#"{"status":"success","data":{"#, Fault::JsonInvalid),
            (r#"{"data":{}}"#, Fault::ResponseUnsuccessful),
            (r#"{"status":"fail","data":{}}"#, Fault::ResponseUnsuccessful),
            (r#"{"status":"success"}"#, Fault::ResponseInvalid),
            (r#"{"status":"success","data":[]}"#, Fault::ResponseInvalid),
        ] {
            assert_eq!(open(body.as_bytes()), Err(fault), "{body}");
        }
        assert!(open("\u{feff}{\"status\":\"success\",\"data\":{}}".as_bytes()).is_ok());
    }

    /// The data's member `x`, given as JSON.
    fn x(json: &str) -> Result<Value, Fault> {
        let body = format!(r#"{{"status":"success","data":{{"\ud800":0,"x":{json},"after":1}}}}"#);
        let mut data = open(body.as_bytes())?;
        assert_eq!(data["after"], 1, "{json}");
        Ok(data.remove("x").unwrap())
    }

    #[test]
    fn half_a_surrogate_pair_is_text_that_nobody_can_read() {
        for (json, text) in [
            (r#""\ud800""#, "\u{fffd}"),
            (r#""\udc00\ud83d\ude00\ud83d""#, "\u{fffd}😀\u{fffd}"),
            (r#""\\ud800 \ud83dx\"""#, "\\ud800 \u{fffd}x\""),
            (r#""\ud83dé\ud83d\u0041""#, "\u{fffd}é\u{fffd}A"),
        ] {
            assert_eq!(x(json).unwrap(), text, "{json}");
        }
        for broken in [r#""\"#, r#""\u"#, r#""\ud8"#, r#""\é"#, r#""\x""#] {
            assert_eq!(x(broken), Err(Fault::JsonInvalid), "{broken}");
        }
    }

    #[test]
    fn numbers_past_a_double_are_no_numbers() {
        for json in ["1e400", "-1E+400", &"9".repeat(400)] {
            assert_eq!(x(json).unwrap(), Value::Bool(false), "{json}");
        }
        assert_eq!(x("[1e400,-2.5e-3,1e-400]").unwrap(), serde_json::json!([false, -2.5e-3, 0.0]));
        for broken in ["1e400.", "01", "+1", "1e", "--1"] {
            assert_eq!(x(broken), Err(Fault::JsonInvalid), "{broken}");
        }
    }

    #[test]
    fn nesting_of_any_depth_is_taken_and_of_any_depth_checked() {
        for depth in [90, 97, 98, 99, 100, 101, 126, 127, 128, 1_000_000] {
            let (open, close) = ("[".repeat(depth), "]".repeat(depth));
            assert!(x(&format!("{open}1{close}")).is_ok(), "{depth}");
            assert!(x(&format!(r#"[{open}"]\"",{{"k":[1e400]}}{close},2]"#)).unwrap()[1] == 2, "{depth}");
            assert_eq!(x(&format!("{open}1,{close}")), Err(Fault::JsonInvalid), "{depth}");
            assert_eq!(x(&format!("{open}}}{close}")), Err(Fault::JsonInvalid), "{depth}");
        }
        assert!(x(&format!(r#"{}1{}"#, r#"{"a":"#.repeat(5000), "}".repeat(5000))).is_ok());
    }
}
