//! What the core's measurements have in common: rendered output, and the way of its bytes from a connection's chunk to
//! the text that is kept and handed over. The same steps, by the same code, as `process::follow` and `process::output`
//! take, without waiting for anybody.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use createos_native::stream::{
    frame::{Frame, Scratch, parse},
    lines::Lines,
    sequence::{Sequence, Verdict},
    tail::Tail,
    text::{Counted, Decoder, JsText},
};

/// What commands print: plain text, and characters of three and four bytes, which frames cut anywhere.
pub const ASCII: &str = "the quick brown fox jumps over the lazy dog 0123456789\n";
pub const CJK: &str = "漢字とカナの混ざった出力です😀🚀一行目\n";

/// As `process::output` keeps.
const TAIL_UNITS: usize = 4_194_304;
/// About what a connection gives at a time.
const CHUNK: usize = 65_536;
/// About what JavaScript is given at a time.
const DELIVERY: usize = 65_536;

/// So many bytes of `text`, again and again, never cut inside a character.
pub fn text(text: &str, bytes: usize) -> String {
    text.repeat(bytes.div_ceil(text.len()))
}

/// The body of a connect stream that prints so many bytes of `text` in frames of one size.
pub fn body(text: &str, bytes: usize, frame: usize) -> Vec<u8> {
    let source = text.repeat(frame / text.len() + 2);
    let mut body = Vec::new();
    for (index, at) in (0..bytes).step_by(frame).enumerate() {
        let start = at % text.len();
        let payload = BASE64_STANDARD.encode(&source.as_bytes()[start..start + frame.min(bytes - at)]);
        let seq = index + 1;
        body.extend_from_slice(
            format!("{{\"type\":\"data\",\"seq\":{seq},\"stream\":\"stdout\",\"data_base64\":\"{payload}\"}}\n")
                .as_bytes(),
        );
    }
    body
}

/// The first line of a body, without its newline.
pub fn first_line(body: &[u8]) -> &[u8] {
    body.split(|&byte| byte == b'\n').next().unwrap_or_default()
}

/// Reads a body to its end and gives the UTF-16 units that JavaScript would get, live and in the result.
pub fn read(body: &[u8]) -> usize {
    let (mut lines, mut scratch, mut sequence) = (Lines::new(), Scratch::default(), Sequence::new());
    let (mut payload, mut decoder, mut tail) = (Vec::new(), Decoder::new(), Tail::new(TAIL_UNITS));
    let (mut delivery, mut units) = (String::with_capacity(2 * DELIVERY), 0);
    for mut chunk in body.chunks(CHUNK) {
        while let Some(line) = lines.next(&mut chunk).expect("rendered lines are short enough") {
            let Ok(Frame::Data(frame)) = parse(line, &mut scratch) else { panic!("all frames are data") };
            assert_eq!(sequence.accept(frame.seq), Ok(Verdict::New));
            frame.decode(&mut payload).expect("rendered payloads are valid");
            for piece in decoder.push(&payload).map(Counted::from) {
                tail.push(piece);
                delivery.push_str(piece.text);
            }
            if delivery.len() >= DELIVERY {
                units += JsText::from(delivery.as_str()).len();
                delivery.clear();
            }
        }
    }
    units + JsText::from(delivery.as_str()).len() + tail.into_js().len()
}
