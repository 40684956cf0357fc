//! What a command has printed: decodes both streams, keeps the tail of each for the result and passes everything on to
//! the live log. Knows no frames and no connection.

use crate::{
    process::outbox::Outbox,
    stream::{
        Stream,
        tail::Tail,
        text::{Counted, Decoder, JsText},
    },
};

/// UTF-16 units of each stream that a result keeps.
pub const TAIL_UNITS: usize = 4_194_304;

#[derive(Debug)]
struct Printed {
    stream: Stream,
    decoder: Decoder,
    tail: Tail,
}

impl Printed {
    fn new(stream: Stream) -> Self {
        Self { stream, decoder: Decoder::new(), tail: Tail::new(TAIL_UNITS) }
    }
}

/// What is left of a command's output when it has ended.
#[derive(Debug)]
pub struct Captured {
    pub stdout: JsText,
    pub stderr: JsText,
    pub truncated: bool,
}

#[derive(Debug)]
pub struct Output {
    printed: [Printed; 2],
    live: Option<Outbox>,
}

impl Output {
    /// Without a live log nothing is ever ahead of JavaScript, so nothing is waited for.
    pub fn new(live: Option<Outbox>) -> Self {
        Self { printed: [Printed::new(Stream::Stdout), Printed::new(Stream::Stderr)], live }
    }

    /// Waits until so many bytes may be written.
    pub async fn room(&mut self, bytes: usize) {
        if let Some(live) = &mut self.live {
            live.room(bytes).await;
        }
    }

    /// Writes bytes of one stream, for which room was made.
    pub fn write(&mut self, stream: Stream, bytes: &[u8]) {
        let Printed { decoder, tail, .. } = &mut self.printed[stream.index()];
        let mut room = bytes.len();
        for text in decoder.push(bytes).map(Counted::from) {
            tail.push(text);
            if let Some(live) = &mut self.live {
                live.push(stream, text, std::mem::take(&mut room));
            }
        }
    }

    /// Nothing more will be written for a while: what was is handed to the live log.
    pub fn flush(&mut self) {
        if let Some(live) = &mut self.live {
            live.flush();
        }
    }

    /// No more bytes will come: an unfinished character becomes U+FFFD.
    pub fn finish(&mut self) {
        for Printed { stream, decoder, tail } in &mut self.printed {
            let text = Counted::from(decoder.finish());
            tail.push(text);
            if let Some(live) = &mut self.live {
                live.push(*stream, text, 0);
            }
        }
    }

    /// Closes the live log and returns what was kept.
    pub fn into_captured(self) -> Captured {
        let [stdout, stderr] = self.printed;
        Captured {
            truncated: stdout.tail.truncated() || stderr.tail.truncated(),
            stdout: stdout.tail.into_js(),
            stderr: stderr.tail.into_js(),
        }
    }
}
