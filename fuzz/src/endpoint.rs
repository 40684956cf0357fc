//! An endpoint that does whatever an input says, with a clock that stands still but for waiting. Owns what can happen to a
//! connection and how that looks in bytes; what should come of it, `model` knows.

use std::time::Duration;

use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use createos_native::{
    api::client::CallError,
    error::{Failure, Fault},
    events::Notice,
    process::follow::{Body, Endpoint, ProcessEnd},
    stream::{Stream, frame::Exit},
};
use tokio::time::{Instant, sleep};

use crate::dice::Dice;

/// A process and everything that its endpoint is going to do. All times are even numbers of milliseconds, pauses and idle
/// timeouts are never the same, and a stop is at an odd one: nothing happens at the same time as something else.
#[derive(Clone, Debug)]
pub struct Case {
    pub attempts: u32,
    pub delay: Duration,
    pub idle: Duration,
    /// When whoever follows goes away.
    pub stop: Option<Duration>,
    pub journal: Vec<(Stream, Vec<u8>)>,
    pub exit: Exit,
    /// What the process says when it is asked.
    pub end: Option<ProcessEnd>,
    pub connections: Vec<Connection>,
}

#[derive(Clone, Debug)]
pub enum Connection {
    Refused(CallError),
    /// No answer, and no end of waiting for one.
    Silent,
    Open(Open),
}

/// What follows an answer with a stream.
#[derive(Clone, Debug)]
pub struct Open {
    pub start: Start,
    pub events: Vec<Event>,
    /// Bytes that are missing at the end of the last line; 1 is its newline.
    pub missing: usize,
    pub end: End,
    /// How many bytes come at once.
    pub piece: usize,
}

/// The first frame that is sent.
#[derive(Clone, Copy, Debug)]
pub enum Start {
    /// The one after what was asked for, or so many before it.
    Replay(u64),
    /// The first one, whatever was asked for.
    Whole,
    /// So many are left out.
    Gap(u64),
}

#[derive(Clone, Debug)]
pub enum Event {
    /// The next frames of the journal, if there are any.
    Frames(usize),
    /// The frames before are sent again.
    Back(u64),
    Heartbeat,
    Pause(Duration),
    /// What is left of the journal, and the exit.
    Exit,
    Odd(Odd),
}

/// A line that no honest endpoint sends, but the first two.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Odd {
    Blank,
    White,
    /// Frame 1 with a payload that is none.
    FirstBroken,
    Broken,
    Unknown,
    Error,
    Evicted,
    NoStatus,
    NoNumber,
    Endless,
    /// The exit, whatever is left of the journal.
    EarlyExit,
}

impl Odd {
    const ALL: [Self; 11] = [
        Self::Blank,
        Self::White,
        Self::FirstBroken,
        Self::Broken,
        Self::Unknown,
        Self::Error,
        Self::Evicted,
        Self::NoStatus,
        Self::NoNumber,
        Self::Endless,
        Self::EarlyExit,
    ];
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum End {
    Clean,
    Broken(Failure),
    /// Nothing comes any more.
    Hanging,
}

/// A line as it is sent.
#[derive(Clone, Debug)]
pub enum Line {
    Data(u64),
    Heartbeat,
    Pause(Duration),
    Exit,
    Odd(Odd),
}

impl Case {
    pub fn new(dice: &mut Dice) -> Self {
        let attempts = dice.below(5) as u32;
        let delay = Duration::from_millis(2 * u64::from(dice.byte()));
        let idle = Duration::from_secs(1 + u64::from(dice.byte()));
        let stop = u64::from(dice.byte());
        let stop = (stop > 127).then(|| Duration::from_millis((stop - 128) * 500 + 1));
        let frames = dice.byte() % 24;
        let journal = (0..frames).map(|_| printed(dice)).collect::<Vec<_>>();
        let exit = match dice.below(3) {
            0 => Exit { code: Some(0.0), signal: None },
            1 => Exit { code: Some(3.0), signal: Some("a text".encode_utf16().collect()) },
            _ => Exit { code: None, signal: Some("SIGKILL".encode_utf16().collect()) },
        };
        let newest_seq = (journal.len() as u64 + dice.below(3) as u64).checked_sub(1);
        let end = if dice.below(4) == 0 { None } else { newest_seq };
        // A code that no exit frame has, to see where an exit comes from.
        let end = end.map(|newest_seq| ProcessEnd { exit: Exit { code: Some(99.0), signal: None }, newest_seq });
        let mut connections = Vec::new();
        while !dice.is_empty() && connections.len() < 48 {
            connections.push(Connection::new(dice));
        }
        Self { attempts, delay, idle, stop, journal, exit, end, connections }
    }

    /// Whether the endpoint never leaves a frame out, whatever else it does.
    pub fn leaves_nothing_out(&self) -> bool {
        self.connections.iter().all(|connection| {
            let Connection::Open(open) = connection else { return true };
            !matches!(open.start, Start::Gap(_))
                && !open.events.iter().any(|event| matches!(event, Event::Odd(Odd::EarlyExit)))
        })
    }

    /// What a connection sends that was opened after this frame.
    pub fn lines(&self, open: &Open, after: u64) -> Vec<Line> {
        let mut next = match open.start {
            Start::Replay(again) => (after + 1).saturating_sub(again).max(1),
            Start::Whole => 1,
            Start::Gap(gap) => after + 1 + gap,
        };
        let end = self.journal.len() as u64 + 1;
        let mut lines = Vec::new();
        for event in &open.events {
            match event {
                Event::Frames(count) => {
                    let last = (next + *count as u64).min(end);
                    lines.extend((next..last).map(Line::Data));
                    next = next.max(last);
                }
                Event::Back(count) => next = next.saturating_sub(*count).max(1),
                Event::Heartbeat => lines.push(Line::Heartbeat),
                Event::Pause(pause) => lines.push(Line::Pause(*pause)),
                Event::Exit => {
                    lines.extend((next..end).map(Line::Data));
                    next = next.max(end);
                    lines.push(Line::Exit);
                }
                Event::Odd(Odd::EarlyExit) => lines.push(Line::Exit),
                Event::Odd(odd) => lines.push(Line::Odd(*odd)),
            }
            // Nobody reads on.
            if matches!(event, Event::Odd(Odd::Endless)) {
                break;
            }
        }
        lines
    }

    fn text(&self, line: &Line) -> Vec<u8> {
        let text = match line {
            Line::Pause(_) => return Vec::new(),
            Line::Data(seq) => {
                let (stream, bytes) = &self.journal[*seq as usize - 1];
                let (stream, payload) = (stream.as_str(), BASE64_STANDARD.encode(bytes));
                format!(r#"{{"type":"data","seq":{seq},"stream":"{stream}","data_base64":"{payload}"}}"#)
            }
            Line::Heartbeat => r#"{"type":"heartbeat"}"#.into(),
            Line::Exit => {
                let code = self.exit.code.map_or("null".into(), |code| code.to_string());
                let signal = self.exit.signal.as_ref().map(|units| String::from_utf16_lossy(units));
                format!(r#"{{"type":"exit","exit_code":{code},"signal":{}}}"#, serde_json::json!(signal))
            }
            Line::Odd(odd) => match odd {
                Odd::Blank | Odd::EarlyExit => "".into(),
                Odd::White => " \u{2028}\r".into(),
                Odd::FirstBroken => r#"{"type":"data","seq":1,"stream":"stdout","data_base64":"?"}"#.into(),
                Odd::Broken => r#"{"type":"exit","exit_code":0"#.into(),
                Odd::Unknown => r#"{"type":"exits","exit_code":0}"#.into(),
                Odd::Error => r#"{"type":"error","error":"exit"}"#.into(),
                Odd::Evicted => r#"{"type":"error","error":"output_offset_expired"}"#.into(),
                Odd::NoStatus => r#"{"type":"exit","exit_code":0.5,"signal":"KILL"}"#.into(),
                Odd::NoNumber => r#"{"type":"data","seq":0,"stream":"stdout","data_base64":""}"#.into(),
                Odd::Endless => "x".repeat(1_048_577),
            },
        };
        format!("{text}\n").into_bytes()
    }
}

/// A frame's content: of a text that frames cut inside characters, and that is not all UTF-8.
fn printed(dice: &mut Dice) -> (Stream, Vec<u8>) {
    const TEXT: &[u8] = b"a\xc3\xa9\xe6\xbc\xa2\xf0\x9f\x98\x80\xff\xe6\xbc\n";
    let byte = usize::from(dice.byte());
    let stream = Stream::ALL[byte & 1];
    let bytes = TEXT.iter().cycle().skip(byte >> 1 & 15).take(byte >> 5);
    (stream, bytes.copied().collect())
}

impl Connection {
    fn new(dice: &mut Dice) -> Self {
        const FAILURES: [Failure; 3] = [Failure::Reset, Failure::Refused, Failure::Timeout];
        let status = |dice: &mut Dice, statuses: &[u16]| {
            let wait = u64::from(dice.byte());
            let retry_after = (wait > 0).then(|| Duration::from_secs(wait));
            Self::Refused(CallError::Status { status: dice.one_of(statuses), retry_after })
        };
        match dice.below(16) {
            0 => Self::Refused(CallError::Unanswered {
                failure: dice.one_of(&FAILURES),
                tries: 1 + dice.below(2) as u32,
            }),
            1 => status(dice, &[500, 502, 503, 429, 599]),
            2 => status(dice, &[400, 401, 404, 408, 410, 304, 300]),
            3 => Self::Silent,
            4 => Self::Refused(CallError::Invalid(Fault::StreamEmpty)),
            _ => Self::Open(Open::new(dice)),
        }
    }
}

impl Open {
    fn new(dice: &mut Dice) -> Self {
        let start = match dice.byte() {
            byte @ 0..200 => Start::Replay(u64::from(byte % 8)),
            200..240 => Start::Whole,
            byte => Start::Gap(u64::from(byte % 4)),
        };
        let mut events = Vec::new();
        while !dice.is_empty() && events.len() < 64 {
            events.push(match dice.byte() {
                0..32 => break,
                byte @ 32..112 => Event::Frames(usize::from(byte % 16)),
                byte @ 112..128 => Event::Back(u64::from(byte % 8)),
                128..144 => Event::Heartbeat,
                byte @ 144..176 => Event::Pause(Duration::from_millis(u64::from(byte % 16).pow(2) * 1000 + 2)),
                176..208 => Event::Exit,
                byte => Event::Odd(Odd::ALL[usize::from(byte) % Odd::ALL.len()]),
            });
        }
        let end = dice.byte();
        let missing = usize::from(end >> 2);
        let end = match end & 3 {
            0 => End::Clean,
            1 => End::Broken(Failure::Reset),
            2 => End::Broken(Failure::Protocol),
            _ => End::Hanging,
        };
        Self { start, events, missing, end, piece: 1 + usize::from(dice.byte()).pow(2) }
    }
}

/// Plays a case; when that is over, nothing answers any more.
pub struct Playing<'a> {
    pub case: &'a Case,
    pub started: Instant,
    /// When connections were asked for, and after which frame.
    pub connects: Vec<(Duration, u64)>,
    pub asked: u32,
    /// When it was said that connections would be asked for again.
    pub announced: Vec<Duration>,
}

impl<'a> Playing<'a> {
    pub fn new(case: &'a Case) -> Self {
        Self { case, started: Instant::now(), connects: Vec::new(), asked: 0, announced: Vec::new() }
    }
}

/// What one connection has yet to send: segments and the pauses before them, last ones first.
pub struct Sent {
    segments: Vec<(Duration, Bytes)>,
    piece: usize,
    end: End,
}

impl Endpoint for Playing<'_> {
    type Body = Sent;

    async fn turn(&mut self) {}

    async fn connect(&mut self, after: u64) -> Result<Sent, CallError> {
        let connection = self.case.connections.get(self.connects.len());
        self.connects.push((self.started.elapsed(), after));
        match connection {
            None => Err(CallError::Unanswered { failure: Failure::Refused, tries: 1 }),
            Some(Connection::Refused(error)) => Err(error.clone()),
            Some(Connection::Silent) => std::future::pending().await,
            Some(Connection::Open(open)) => Ok(Sent::new(self.case, open, after)),
        }
    }

    async fn ended(&mut self) -> Option<ProcessEnd> {
        self.asked += 1;
        self.case.end.clone()
    }

    fn tell(&mut self, notice: Notice) {
        match notice {
            Notice::Connected => {}
            Notice::Reconnecting { delay, .. } => self.announced.push(self.started.elapsed() + delay),
            other => panic!("{other:?} is nobody's business here"),
        }
    }
}

impl Sent {
    fn new(case: &Case, open: &Open, after: u64) -> Self {
        let lines = case.lines(open, after);
        let mut segments = vec![(Duration::ZERO, Vec::new())];
        let last = lines.iter().rposition(|line| !matches!(line, Line::Pause(_)));
        for (index, line) in lines.iter().enumerate() {
            let mut text = case.text(line);
            if Some(index) == last {
                text.truncate(text.len().saturating_sub(open.missing));
            }
            match (line, segments.last_mut()) {
                (Line::Pause(pause), _) => segments.push((*pause, text)),
                (_, Some((_, segment))) => segment.extend(text),
                (_, None) => {}
            }
        }
        let segments = segments.into_iter().rev().map(|(pause, bytes)| (pause, bytes.into())).collect();
        Self { segments, piece: open.piece, end: open.end }
    }
}

impl Body for Sent {
    async fn chunk(&mut self) -> Result<Option<Bytes>, Failure> {
        let Some((pause, bytes)) = self.segments.last_mut() else {
            return match self.end {
                End::Clean => Ok(None),
                End::Broken(failure) => Err(failure),
                End::Hanging => std::future::pending().await,
            };
        };
        if *pause > Duration::ZERO {
            sleep(std::mem::take(pause)).await;
        }
        // A line that is too long would take a million small pieces; `frames` cuts those finely.
        let piece = self.piece.max(bytes.len() / 64).min(bytes.len());
        let piece = bytes.split_to(piece);
        if bytes.is_empty() {
            self.segments.pop();
        }
        // An empty piece is one, too.
        Ok(Some(piece))
    }
}
