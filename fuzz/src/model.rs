//! What has to come of a case, said without a byte, a task or a clock: the contract's rules, one after the other.

use std::time::Duration;

use createos_native::{
    api::client::CallError,
    error::{Fault, Operation},
    process::follow::ProcessEnd,
    stream::frame::Exit,
};

use crate::endpoint::{Case, Connection, End, Line, Odd, Open};

/// Everything that can be seen of following a process.
#[derive(Debug, PartialEq)]
pub struct Seen {
    /// `None` if whoever followed went away before.
    pub result: Option<Result<Exit, Fault>>,
    /// The frames whose output was taken.
    pub taken: Vec<u64>,
    pub connects: Vec<(Duration, u64)>,
    pub asked: u32,
}

struct Model<'a> {
    case: &'a Case,
    now: Duration,
    /// When each frame was taken.
    taken: Vec<Duration>,
    failures: u32,
    delay: Duration,
}

enum Read {
    Ended(Result<Exit, Fault>),
    Idle,
    /// Whether the endpoint had answered, and for how long it does not want to be asked.
    Lost(bool, Duration),
}

pub fn expected(case: &Case) -> Seen {
    let mut model = Model { case, now: Duration::ZERO, taken: Vec::new(), failures: 0, delay: case.delay };
    let (mut connects, mut asked) = (Vec::new(), Vec::new());
    let result = model.follow(&mut connects, &mut asked);
    let stopped = case.stop.filter(|stop| *stop < model.now);
    let before = |at: &Duration| stopped.is_none_or(|stop| *at < stop);
    connects.retain(|(at, _)| before(at));
    Seen {
        result: stopped.is_none().then_some(result),
        taken: (1..).zip(&model.taken).filter(|(_, at)| before(at)).map(|(seq, _)| seq).collect(),
        connects,
        asked: asked.iter().filter(|at| before(at)).count() as u32,
    }
}

impl Model<'_> {
    fn last(&self) -> u64 {
        self.taken.len() as u64
    }

    fn follow(&mut self, connects: &mut Vec<(Duration, u64)>, asked: &mut Vec<Duration>) -> Result<Exit, Fault> {
        let mut known: Option<&ProcessEnd> = None;
        loop {
            connects.push((self.now, self.last()));
            let (answered, wait) = match self.connection(connects.len() - 1) {
                Read::Ended(result) => return result,
                Read::Idle => continue,
                Read::Lost(answered, wait) => (answered, wait),
            };
            let all_there = |known: Option<&ProcessEnd>, last| {
                known.filter(|end| end.newest_seq == last).map(|end| end.exit.clone())
            };
            if let Some(exit) = all_there(known, self.last()) {
                return Ok(exit);
            }
            self.failures += 1;
            if self.failures > self.case.attempts {
                let first = asked.is_empty();
                if first {
                    asked.push(self.now);
                    known = self.case.end.as_ref();
                    if let Some(exit) = all_there(known, self.last()) {
                        return Ok(exit);
                    }
                }
                let missing = known.is_some_and(|end| end.newest_seq > self.last());
                if !(first && missing) {
                    return Err(match (answered, missing) {
                        (false, _) => Fault::OutputConnection,
                        (true, true) => Fault::StreamIncomplete,
                        (true, false) => Fault::StreamEnded,
                    });
                }
                self.failures = 0;
            }
            self.now += self.delay.max(wait);
            self.delay = (2 * self.delay).min(Duration::from_secs(10));
        }
    }

    fn connection(&mut self, index: usize) -> Read {
        match self.case.connections.get(index) {
            None | Some(Connection::Refused(CallError::Unanswered { .. })) => Read::Lost(false, Duration::ZERO),
            Some(Connection::Refused(CallError::Invalid(fault))) => Read::Ended(Err(fault.clone())),
            Some(Connection::Refused(CallError::Status { status, retry_after })) => match status {
                410 => Read::Ended(Err(Fault::OutputEvicted)),
                429 | 500.. => Read::Lost(false, retry_after.unwrap_or_default()),
                _ => Read::Ended(Err(Fault::Api { status: *status, operation: Operation::OutputConnection })),
            },
            Some(Connection::Silent) => {
                self.now += self.case.idle;
                Read::Idle
            }
            Some(Connection::Open(open)) => self.open(open),
        }
    }

    fn open(&mut self, open: &Open) -> Read {
        let opened = self.now;
        let lines = self.case.lines(open, self.last());
        let last = lines.iter().rposition(|line| !matches!(line, Line::Pause(_)));
        let mut unfinished = None;
        for (index, line) in lines.iter().enumerate() {
            if let Line::Pause(pause) = line {
                self.now += (*pause).min(self.case.idle);
                if *pause > self.case.idle {
                    return Read::Idle;
                }
            } else if Some(index) == last && open.missing > 0 {
                // More than a line may have is too much before it has ended.
                if open.missing == 1 && matches!(line, Line::Odd(Odd::Endless)) {
                    return Read::Ended(Err(Fault::FrameTooLarge));
                }
                unfinished = Some(line);
            } else {
                match self.line(line, opened) {
                    Ok(None) => {}
                    Ok(Some(exit)) => return Read::Ended(Ok(exit)),
                    Err(fault) => return Read::Ended(Err(fault)),
                }
            }
        }
        match open.end {
            End::Hanging => {
                self.now += self.case.idle;
                return Read::Idle;
            }
            End::Broken(_) => {}
            // Only its newline is missing, so this is a frame.
            End::Clean => match unfinished.filter(|_| open.missing == 1).map(|line| self.line(line, opened)) {
                None | Some(Ok(None) | Err(Fault::FrameInvalid)) => {}
                Some(Ok(Some(exit))) => return Read::Ended(Ok(exit)),
                Some(Err(fault)) => return Read::Ended(Err(fault)),
            },
        }
        Read::Lost(true, Duration::ZERO)
    }

    fn line(&mut self, line: &Line, opened: Duration) -> Result<Option<Exit>, Fault> {
        match line {
            Line::Pause(_) | Line::Odd(Odd::Blank | Odd::White | Odd::EarlyExit) => {}
            Line::Data(seq) if *seq > self.last() + 1 => return Err(Fault::SequenceGap),
            Line::Data(seq) if *seq == self.last() + 1 => {
                self.taken.push(self.now);
                self.failures = 0;
                self.delay = self.case.delay;
            }
            Line::Data(_) => {}
            Line::Heartbeat => {
                if self.now - opened >= Duration::from_secs(5) {
                    self.failures = 0;
                }
            }
            Line::Exit => return Ok(Some(self.case.exit.clone())),
            Line::Odd(Odd::FirstBroken) if self.last() > 0 => {}
            Line::Odd(Odd::FirstBroken) => return Err(Fault::OutputInvalid),
            Line::Odd(Odd::Broken) => return Err(Fault::FrameInvalid),
            Line::Odd(Odd::Unknown) => return Err(Fault::EventUnknown),
            Line::Odd(Odd::Error) => return Err(Fault::StreamError),
            Line::Odd(Odd::Evicted) => return Err(Fault::OutputEvicted),
            Line::Odd(Odd::NoStatus) => return Err(Fault::ExitStatusMissing),
            Line::Odd(Odd::NoNumber) => return Err(Fault::SequenceInvalid),
            Line::Odd(Odd::Endless) => return Err(Fault::FrameTooLarge),
        }
        Ok(None)
    }
}
