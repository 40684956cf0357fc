//! Any bytes in any pieces → lines → frames: the same events as in one piece and as by the plain definition, never a panic,
//! and no more memory than the longest line calls for. `pieces` says what an input stands for.
#![no_main]

use std::collections::HashMap;

use base64::{
    Engine,
    alphabet::STANDARD,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use createos_native::{
    error::Fault,
    stream::{
        Stream,
        frame::{Frame, Scratch, parse},
        lines::{Lines, MAX_LINE},
    },
};
use createos_native_fuzz::{memory::most_held, pieces::pieces};
use libfuzzer_sys::fuzz_target;
use serde_json::value::RawValue;

#[derive(Clone, Debug, PartialEq)]
enum Event {
    Data(u64, Result<(Stream, Vec<u8>), Fault>),
    Heartbeat,
    Exit(Option<f64>, Option<Vec<u16>>),
    Fault(Fault),
}

fn judge(line: &[u8], scratch: &mut Scratch, payload: &mut Vec<u8>, each: &mut impl FnMut(&[u8], Event)) {
    let event = match parse(line, scratch) {
        Ok(Frame::Data(frame)) => {
            Event::Data(frame.seq, frame.decode(payload).map(|stream| (stream, std::mem::take(payload))))
        }
        Ok(Frame::Heartbeat) => Event::Heartbeat,
        Ok(Frame::Exit(exit)) => Event::Exit(exit.code, exit.signal),
        Err(fault) => Event::Fault(fault),
    };
    each(line, event);
}

/// Every event of a body. A bad frame ends a real connection; here the next line is read all the same.
fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, mut each: impl FnMut(&[u8], Event)) {
    let (mut lines, mut scratch, mut payload) = (Lines::new(), Scratch::default(), Vec::new());
    for mut piece in pieces {
        loop {
            match lines.next(&mut piece) {
                Ok(Some(line)) => judge(line, &mut scratch, &mut payload, &mut each),
                Ok(None) => break,
                Err(fault) => return each(b"", Event::Fault(fault)),
            }
        }
        assert!(piece.is_empty(), "a piece is read to its end");
    }
    if let Some(line) = lines.finish() {
        judge(line, &mut scratch, &mut payload, &mut each);
    }
}

fn events<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<Event> {
    let mut all = Vec::new();
    read(pieces, |_, event| all.push(event));
    all
}

/// What JavaScript's `trim` removes.
fn is_white(c: char) -> bool {
    matches!(
        c,
        '\t' | '\n' | '\u{b}' | '\u{c}' | '\r' | ' ' | '\u{a0}' | '\u{1680}' | '\u{2000}'
            ..='\u{200a}' | '\u{2028}' | '\u{2029}' | '\u{202f}' | '\u{205f}' | '\u{3000}' | '\u{feff}'
    )
}

/// The same by definition: decode all of it, drop the mark, split, trim, and let a parser of renown read each line.
fn expected(body: &[u8]) -> Vec<Option<Event>> {
    let body = body.strip_prefix("\u{feff}".as_bytes()).unwrap_or(body);
    let mut all = Vec::new();
    for line in body.split(|&byte| byte == b'\n') {
        if line.len() > MAX_LINE {
            all.push(Some(Event::Fault(Fault::FrameTooLarge)));
            break;
        }
        let text = String::from_utf8_lossy(line);
        if !text.chars().all(is_white) {
            all.push(expected_of(&text));
        }
    }
    all
}

/// `None` where that parser is no judge: it knows no half surrogate pairs.
fn expected_of(line: &str) -> Option<Event> {
    let Ok(members) = serde_json::from_str::<HashMap<String, &RawValue>>(line) else {
        return (!line.contains("\\u")).then_some(Event::Fault(Fault::FrameInvalid));
    };
    let raw = |name: &str| members.get(name).map_or("null", |value| value.get());
    let text = |name| {
        Some(serde_json::from_str::<String>(raw(name)).ok()).filter(|text| text.is_some() || !raw(name).contains("\\u"))
    };
    let number = |name| raw(name).parse::<f64>().ok();
    Some(match text("type")?.as_deref() {
        Some("data") => {
            let Some(seq) = number("seq").filter(|seq| seq.fract() == 0.0 && *seq >= 1.0 && *seq < 2f64.powi(53))
            else {
                return Some(Event::Fault(Fault::SequenceInvalid));
            };
            let stream =
                Stream::ALL.into_iter().find(|stream| text("stream").flatten().as_deref() == Some(stream.as_str()));
            let config = GeneralPurposeConfig::new()
                .with_decode_allow_trailing_bits(true)
                .with_decode_padding_mode(DecodePaddingMode::RequireCanonical);
            let payload =
                text("data_base64")?.and_then(|text| GeneralPurpose::new(&STANDARD, config).decode(text).ok());
            Event::Data(seq as u64, stream.zip(payload).ok_or(Fault::OutputInvalid))
        }
        Some("heartbeat") => Event::Heartbeat,
        Some("exit") => {
            let code = number("exit_code").filter(|code| code.is_finite() && code.fract() == 0.0);
            let signal = text("signal")?;
            let named = signal.as_deref().and_then(|signal| signal.strip_prefix("SIG")).is_some_and(|name| {
                !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
            });
            match code.is_some() || named {
                true => Event::Exit(code, signal.map(|signal| signal.encode_utf16().collect())),
                false => Event::Fault(Fault::ExitStatusMissing),
            }
        }
        Some("error") if text("error").flatten().as_deref() == Some("output_offset_expired") => {
            Event::Fault(Fault::OutputEvicted)
        }
        Some("error") => Event::Fault(Fault::StreamError),
        _ => Event::Fault(Fault::EventUnknown),
    })
}

fuzz_target!(|input: &[u8]| {
    let pieces = pieces(input);
    let body = pieces.concat();
    let whole = events([&body[..]]);

    assert_eq!(events(pieces.iter().map(Vec::as_slice)), whole, "pieces change nothing");
    // Byte by byte, unless that were millions.
    assert_eq!(events(body.chunks(1 + body.len() / 10_000)), whole, "small pieces change nothing");

    let expected = expected(&body);
    assert_eq!(whole.len(), expected.len(), "{whole:?}\n{expected:?}");
    for (event, expected) in whole.iter().zip(expected) {
        assert!(expected.as_ref().is_none_or(|expected| event == expected), "{event:?}, not {expected:?}");
    }

    // A line may be repaired, unescaped and decoded, in buffers that have grown by doubling.
    let mut longest = 0;
    let ((), held) = most_held(|| read(pieces.iter().map(Vec::as_slice), |line, _| longest = longest.max(line.len())));
    let longest = longest.max(body.split(|&byte| byte == b'\n').map(<[u8]>::len).max().unwrap_or(0).min(MAX_LINE));
    assert!(held <= 16 * longest + 4096, "{held} bytes are held for lines of {longest}");
});
