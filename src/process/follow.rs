//! A process's output from its first frame to its exit, over as many connections as that takes. Owns what the end of a
//! connection means: resume, ask the process, or give up. Reads frames and hands their bytes on; when to stop early is
//! the caller's affair, who may drop the future at any time: each frame is either accepted as a whole or not at all.

use std::{future::Future, time::Duration};

use bytes::Bytes;
use serde_json::Value;
use tokio::{
    task::coop::consume_budget,
    time::{Instant, sleep, timeout},
};

use super::{output::Output, reconnect::Reconnect};
use crate::{
    api::{
        client::{Call, CallError, Client, ResourceId},
        failure::classify,
        pacer::Priority,
    },
    error::{Attempt, Details, Error, Failure, Fault, Operation},
    events::{Loss, Notice},
    stream::{
        frame::{DataFrame, Exit, Frame, Scratch, exit_status, parse},
        lines::Lines,
        sequence::{Sequence, Verdict},
    },
};

const OPERATION: Operation = Operation::OutputConnection;

/// How long a process is asked how it ended, and how long its answer is waited for.
const WAIT_MS: u32 = 1000;
const WAIT_ANSWER: Duration = Duration::from_secs(2);

/// One process, as far as following needs it.
pub trait Endpoint {
    type Body: Body;

    /// Waits until a connection may be asked for.
    fn turn(&mut self) -> impl Future<Output = ()> + Send;

    /// Opens the stream of frames after this one.
    fn connect(&mut self, after: u64) -> impl Future<Output = Result<Self::Body, CallError>> + Send;

    /// Asks whether the process has ended and how. `None` if it has not, or did not say.
    fn ended(&mut self) -> impl Future<Output = Option<ProcessEnd>> + Send;

    /// Is told what becomes of the connection.
    fn tell(&mut self, notice: Notice);
}

/// The bytes of one connection.
pub trait Body: Send {
    /// `None` at a clean end.
    fn chunk(&mut self) -> impl Future<Output = Result<Option<Bytes>, Failure>> + Send;
}

/// A process whose tree has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessEnd {
    pub exit: Exit,
    /// The number of its last frame, 0 if there is none.
    pub newest_seq: u64,
}

#[derive(Clone, Copy, Debug)]
pub struct Policy {
    pub attempts: u32,
    pub delay: Duration,
    pub idle_timeout: Option<Duration>,
}

/// Follows a process to its exit.
pub async fn follow<E: Endpoint>(endpoint: &mut E, output: &mut Output, policy: Policy) -> Result<Exit, Error> {
    let mut following = Following {
        output,
        idle_timeout: policy.idle_timeout,
        sequence: Sequence::new(),
        reconnect: Reconnect::new(policy.attempts, policy.delay),
        details: Details::new(OPERATION),
        scratch: Scratch::default(),
        payload: Vec::new(),
    };
    // What the process said about its end. It is asked once, when the budget is used up for the first time.
    let mut end: Option<ProcessEnd> = None;
    let mut asked = false;
    loop {
        let read = following.connection(endpoint).await;
        following.output.flush();
        let lost = match read {
            Ok(Read::Exit(exit)) => return Ok(exit),
            Ok(Read::Idle) => {
                endpoint.tell(following.reconnecting(Loss::Idle, Duration::ZERO));
                continue;
            }
            Ok(Read::Lost(lost)) => lost,
            Err(fault) => return Err(following.fail(fault)),
        };
        if let Some(exit) = following.complete(end.as_ref()) {
            return Ok(exit);
        }
        let mut delay = following.reconnect.failure(lost.retry_after);
        if delay.is_none() && !asked {
            asked = true;
            end = endpoint.ended().await;
            if let Some(exit) = following.complete(end.as_ref()) {
                return Ok(exit);
            }
            // Frames are missing that may still be in the journal.
            if end.as_ref().is_some_and(|end| end.newest_seq > following.sequence.last()) {
                following.reconnect.renew();
                delay = Some(following.reconnect.delay(lost.retry_after));
            }
        }
        let Some(delay) = delay else {
            let missing = end.is_some_and(|end| end.newest_seq > following.sequence.last());
            return Err(following.fail(match (lost.answered, missing) {
                (false, _) => Fault::OutputConnection,
                (true, false) => Fault::StreamEnded,
                (true, true) => Fault::StreamIncomplete,
            }));
        };
        endpoint.tell(following.reconnecting(lost.reason, delay));
        sleep(delay).await;
    }
}

/// How reading one connection ended without a fault.
enum Read {
    Exit(Exit),
    /// Nothing came for too long, which is no failure: a quiet command, or a peer that is gone without a word.
    Idle,
    Lost(Lost),
}

/// A connection that failed.
struct Lost {
    /// The endpoint answered with a stream, which then ended early.
    answered: bool,
    reason: Loss,
    retry_after: Option<Duration>,
}

struct Following<'a> {
    output: &'a mut Output,
    idle_timeout: Option<Duration>,
    sequence: Sequence,
    reconnect: Reconnect,
    details: Details,
    scratch: Scratch,
    payload: Vec<u8>,
}

impl Following<'_> {
    fn fail(&mut self, fault: Fault) -> Error {
        Error::new(fault, std::mem::take(&mut self.details))
    }

    /// The exit of a process whose end is known and whose output is all there.
    fn complete(&self, end: Option<&ProcessEnd>) -> Option<Exit> {
        end.filter(|end| end.newest_seq == self.sequence.last()).map(|end| end.exit.clone())
    }

    fn reconnecting(&mut self, reason: Loss, delay: Duration) -> Notice {
        Notice::Reconnecting { reason, attempt: self.reconnect.attempt(), delay }
    }

    /// Opens a connection and reads it to its end.
    async fn connection<E: Endpoint>(&mut self, endpoint: &mut E) -> Result<Read, Fault> {
        endpoint.turn().await;
        let connecting = endpoint.connect(self.sequence.last());
        match within(self.idle_timeout, connecting).await {
            Some(Ok(body)) => {
                endpoint.tell(Notice::Connected);
                self.read(body).await
            }
            Some(Err(error)) => self.refused(error),
            None => Ok(Read::Idle),
        }
    }

    /// A request for a connection that brought no stream: final, or one more failure.
    fn refused(&mut self, error: CallError) -> Result<Read, Fault> {
        error.record(&mut self.details);
        match error {
            CallError::Status { status: 410, .. } => Err(Fault::OutputEvicted),
            CallError::Status { status, .. } if status < 500 && status != 429 => {
                Err(Fault::Api { status, operation: OPERATION })
            }
            CallError::Invalid(fault) => Err(fault),
            error => {
                let reason = match error.attempt() {
                    Attempt::Status(status) => Loss::Status(status),
                    Attempt::Failure(failure) => Loss::Failure(failure),
                };
                Ok(Read::Lost(Lost { answered: false, reason, retry_after: error.retry_after() }))
            }
        }
    }

    async fn read(&mut self, mut body: impl Body) -> Result<Read, Fault> {
        let opened = Instant::now();
        let mut lines = Lines::new();
        loop {
            self.output.flush();
            // Bytes that come as fast as they are read must not keep deadlines from being noticed.
            consume_budget().await;
            let chunk = match within(self.idle_timeout, body.chunk()).await {
                None => return Ok(Read::Idle),
                Some(Ok(Some(chunk))) => chunk,
                Some(Ok(None)) => {
                    return match lines.finish() {
                        Some(line) => self.last_line(line, opened).await,
                        None => Ok(self.lost(Loss::Ended, Failure::Reset)),
                    };
                }
                Some(Err(failure)) => return Ok(self.lost(Loss::Failure(failure), failure)),
            };
            let mut rest = &chunk[..];
            while let Some(line) = lines.next(&mut rest)? {
                if let Some(exit) = self.line(line, opened).await? {
                    return Ok(Read::Exit(exit));
                }
            }
        }
    }

    /// What follows the last newline of a stream that ended cleanly: a frame that lacks its newline, or one that was
    /// cut. What was cut is no JSON.
    async fn last_line(&mut self, line: &[u8], opened: Instant) -> Result<Read, Fault> {
        match self.line(line, opened).await {
            Ok(Some(exit)) => Ok(Read::Exit(exit)),
            Ok(None) | Err(Fault::FrameInvalid) => Ok(self.lost(Loss::Ended, Failure::Reset)),
            Err(fault) => Err(fault),
        }
    }

    fn lost(&mut self, reason: Loss, failure: Failure) -> Read {
        self.details.push(Attempt::Failure(failure));
        Read::Lost(Lost { answered: true, reason, retry_after: None })
    }

    async fn line(&mut self, line: &[u8], opened: Instant) -> Result<Option<Exit>, Fault> {
        match parse(line, &mut self.scratch)? {
            Frame::Data(frame) => {
                accept(frame, &mut self.sequence, &mut self.payload, self.output)
                    .await?
                    .then(|| self.reconnect.progress());
                Ok(None)
            }
            Frame::Heartbeat => {
                self.reconnect.heartbeat(opened.elapsed());
                Ok(None)
            }
            Frame::Exit(exit) => Ok(Some(exit)),
        }
    }
}

/// Writes a data frame's bytes if it is new. Waits for room before it is accepted, so that a future that is dropped
/// meanwhile has not taken it.
async fn accept(
    frame: DataFrame<'_>,
    sequence: &mut Sequence,
    payload: &mut Vec<u8>,
    output: &mut Output,
) -> Result<bool, Fault> {
    let mut next = *sequence;
    if next.accept(frame.seq)? == Verdict::Seen {
        return Ok(false);
    }
    let stream = frame.decode(payload)?;
    output.room(payload.len()).await;
    output.write(stream, payload);
    *sequence = next;
    Ok(true)
}

async fn within<F: Future>(limit: Option<Duration>, future: F) -> Option<F::Output> {
    match limit {
        Some(limit) => timeout(limit, future).await.ok(),
        None => Some(future.await),
    }
}

/// A process behind a client.
pub struct Remote<'a> {
    client: &'a Client,
    /// `/sandboxes/{id}/processes/{pid}`
    path: String,
}

impl<'a> Remote<'a> {
    pub fn new(client: &'a Client, lease: &ResourceId, process: &ResourceId) -> Self {
        Self { client, path: format!("/sandboxes/{lease}/processes/{process}") }
    }
}

impl Endpoint for Remote<'_> {
    type Body = reqwest::Response;

    async fn turn(&mut self) {
        self.client.turn(Priority::Normal).await;
    }

    async fn connect(&mut self, after: u64) -> Result<reqwest::Response, CallError> {
        let call = Call::get(OPERATION, format!("{}/connect?after={after}", self.path));
        let response = self.client.send_now(call).await?;
        match response.status().as_u16() {
            204 | 205 => Err(CallError::Invalid(Fault::StreamEmpty)),
            _ => Ok(response),
        }
    }

    async fn ended(&mut self) -> Option<ProcessEnd> {
        let path = format!("{}/wait?scope=tree&timeout_ms={WAIT_MS}", self.path);
        let data = timeout(WAIT_ANSWER, self.client.data(Call::get(OPERATION, path))).await.ok()?.ok()?;
        if data.get("tree_exited") != Some(&Value::Bool(true)) {
            return None;
        }
        let newest_seq = match data.get("output")?.get("newest_seq") {
            // No number stands for no frame.
            None | Some(Value::Null) => 0,
            Some(seq) => whole_number(seq)?,
        };
        let exit = exit_status(data.get("exit_code"), data.get("signal")).ok()?;
        Some(ProcessEnd { exit, newest_seq })
    }

    fn tell(&mut self, notice: Notice) {
        self.client.events.tell(notice);
    }
}

/// An integer, also one that is written as `1.0`.
fn whole_number(value: &Value) -> Option<u64> {
    let number = value.as_f64()?;
    (number >= 0.0 && number.fract() == 0.0).then_some(number as u64)
}

impl Body for reqwest::Response {
    async fn chunk(&mut self) -> Result<Option<Bytes>, Failure> {
        reqwest::Response::chunk(self).await.map_err(|error| classify(&error))
    }
}

#[cfg(test)]
mod tests;
