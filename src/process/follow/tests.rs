//! Following a scripted endpoint, with a clock that stands still but for waiting.

use base64::{Engine, prelude::BASE64_STANDARD};
use proptest::prelude::*;

use super::*;
use crate::stream::text::JsText;

/// What one connection does.
#[derive(Clone, Debug)]
enum Step {
    Status(u16, Option<u64>),
    NoAnswer,
    /// Bytes, then how the body ends: cleanly, by a failure, or never.
    Body(Vec<u8>, End),
    /// No answer, and no end of waiting for one.
    Silence,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Clean,
    Reset,
    Hang,
}

/// Plays its steps, the last one again and again.
#[derive(Default)]
struct Script {
    steps: Vec<Step>,
    played: usize,
    end: Option<ProcessEnd>,
    asked: u32,
    resumed_after: Vec<u64>,
    at: Vec<Duration>,
    told: Vec<Notice>,
    started: Option<Instant>,
}

struct Playing {
    bytes: Option<Bytes>,
    end: End,
}

impl Body for Playing {
    async fn chunk(&mut self) -> Result<Option<Bytes>, Failure> {
        match (self.bytes.take(), self.end) {
            (Some(bytes), _) if !bytes.is_empty() => Ok(Some(bytes)),
            (_, End::Clean) => Ok(None),
            (_, End::Reset) => Err(Failure::Reset),
            (_, End::Hang) => std::future::pending().await,
        }
    }
}

impl Endpoint for Script {
    type Body = Playing;

    async fn turn(&mut self) {}

    async fn connect(&mut self, after: u64) -> Result<Playing, CallError> {
        let started = *self.started.get_or_insert_with(Instant::now);
        self.at.push(started.elapsed());
        self.resumed_after.push(after);
        let step = self.steps[self.played.min(self.steps.len() - 1)].clone();
        self.played += 1;
        match step {
            Step::Status(status, retry_after) => {
                Err(CallError::Status { status, retry_after: retry_after.map(Duration::from_secs) })
            }
            Step::NoAnswer => Err(CallError::Unanswered { failure: Failure::Refused, tries: 1 }),
            Step::Body(bytes, end) => Ok(Playing { bytes: Some(bytes.into()), end }),
            Step::Silence => std::future::pending().await,
        }
    }

    async fn ended(&mut self) -> Option<ProcessEnd> {
        self.asked += 1;
        self.end.clone()
    }

    fn tell(&mut self, notice: Notice) {
        self.told.push(notice);
    }
}

fn data(seq: u64, text: &str) -> String {
    let payload = BASE64_STANDARD.encode(text);
    format!("{{\"type\":\"data\",\"seq\":{seq},\"stream\":\"stdout\",\"data_base64\":\"{payload}\"}}\n")
}

const EXIT: &str = "{\"type\":\"exit\",\"exit_code\":0}\n";

fn body(text: impl Into<String>) -> Step {
    Step::Body(text.into().into_bytes(), End::Clean)
}

fn ended(code: f64, newest_seq: u64) -> Option<ProcessEnd> {
    Some(ProcessEnd { exit: Exit { code: Some(code), signal: None }, newest_seq })
}

const POLICY: Policy =
    Policy { attempts: 3, delay: Duration::from_millis(250), idle_timeout: Some(Duration::from_secs(300)) };

struct Followed {
    result: Result<Exit, Error>,
    stdout: String,
    script: Script,
}

async fn run_with(policy: Policy, mut script: Script) -> Followed {
    let mut output = Output::new(None);
    let result = follow(&mut script, &mut output, policy).await;
    let stdout = match output.into_captured().stdout {
        JsText::Latin1(bytes) => bytes.into_iter().map(char::from).collect(),
        JsText::Utf16(units) => String::from_utf16_lossy(&units),
    };
    Followed { result, stdout, script }
}

async fn run(steps: Vec<Step>) -> Followed {
    run_with(POLICY, Script { steps, ..Script::default() }).await
}

fn fault(followed: &Followed) -> Option<Fault> {
    followed.result.as_ref().err().map(|error| error.fault.clone())
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_resumed_after_the_last_accepted_frame() {
    let cut = format!("{}{}", data(1, "a"), &data(2, "b")[..20]);
    let followed = run(vec![
        Step::Body(cut.clone().into_bytes(), End::Reset),
        body(cut),
        body(format!("{}{}{EXIT}", data(1, "a"), data(2, "b"))),
    ])
    .await;
    assert_eq!(followed.result, Ok(Exit { code: Some(0.0), signal: None }));
    assert_eq!(followed.stdout, "ab");
    assert_eq!(followed.script.resumed_after, [0, 1, 1]);
}

#[tokio::test(start_paused = true)]
async fn four_failures_in_a_row_are_too_many_and_the_last_one_names_the_error() {
    for (steps, expected) in [
        (vec![Step::NoAnswer], Fault::OutputConnection),
        (vec![Step::Status(503, None)], Fault::OutputConnection),
        (vec![body("")], Fault::StreamEnded),
        (vec![Step::NoAnswer, Step::NoAnswer, Step::NoAnswer, body("")], Fault::StreamEnded),
        (vec![body(""), body(""), body(""), Step::Status(429, None)], Fault::OutputConnection),
    ] {
        let followed = run(steps).await;
        assert_eq!(fault(&followed), Some(expected));
        assert_eq!(followed.script.played, 4);
        assert_eq!(followed.script.asked, 1);
        assert_eq!(followed.result.unwrap_err().details.tries, 4);
        let ms: Vec<_> = followed.script.at.iter().map(Duration::as_millis).collect();
        assert_eq!(ms, [0, 250, 750, 1750]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_asks_for_patience_gets_it() {
    let followed = run(vec![Step::Status(429, Some(30)), body(EXIT)]).await;
    assert!(followed.result.is_ok());
    assert_eq!(followed.script.at[1], Duration::from_secs(30));
}

#[tokio::test(start_paused = true)]
async fn progress_restores_the_budget_and_a_replayed_frame_is_no_progress() {
    let mut steps: Vec<_> = (1..=50).map(|seq| body(data(seq, "x"))).collect();
    steps.push(body(EXIT));
    let followed = run(steps).await;
    assert!(followed.result.is_ok());
    assert_eq!(followed.stdout, "x".repeat(50));
    let followed = run(vec![body(data(1, "x"))]).await;
    assert_eq!((fault(&followed), followed.script.played), (Some(Fault::StreamEnded), 4));
}

#[tokio::test(start_paused = true)]
async fn a_quiet_stream_is_connected_anew_without_counting() {
    let quiet = Step::Body(data(1, "x").into_bytes(), End::Hang);
    let mut steps = vec![quiet];
    steps.extend((0..20).map(|_| Step::Silence));
    steps.push(body(EXIT));
    let followed = run(steps).await;
    assert!(followed.result.is_ok());
    assert_eq!(followed.script.at[1], Duration::from_secs(300));
    assert_eq!(followed.script.at.len(), 22);
}

#[tokio::test(start_paused = true)]
async fn final_answers_are_not_asked_again() {
    for (step, expected) in [
        (Step::Status(410, None), Fault::OutputEvicted),
        (Step::Status(404, None), Fault::Api { status: 404, operation: OPERATION }),
        (Step::Status(304, None), Fault::Api { status: 304, operation: OPERATION }),
        (body("{broken\n"), Fault::FrameInvalid),
        (body("{\"type\":\"error\"}"), Fault::StreamError),
        (body(data(2, "x")), Fault::SequenceGap),
        (body("x".repeat(1_048_577)), Fault::FrameTooLarge),
    ] {
        let followed = run(vec![step]).await;
        assert_eq!((fault(&followed), followed.script.played), (Some(expected), 1));
        assert_eq!(followed.script.asked, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_exit_frame_is_recovered_from_the_process() {
    let script = Script { steps: vec![body(data(1, "a")), Step::NoAnswer], end: ended(5.0, 1), ..Script::default() };
    let followed = run_with(POLICY, script).await;
    assert_eq!(followed.result, Ok(Exit { code: Some(5.0), signal: None }));
}

#[tokio::test(start_paused = true)]
async fn frames_that_are_missing_get_one_more_round_of_tries() {
    let steps = vec![body(data(1, "a")), body(""), body(""), body(""), body(""), body(data(2, "b")), body("")];
    let found = run_with(POLICY, Script { steps: steps.clone(), end: ended(0.0, 2), ..Script::default() }).await;
    assert_eq!(found.result, Ok(Exit { code: Some(0.0), signal: None }));
    assert_eq!((found.stdout.as_str(), found.script.played), ("ab", 6));

    let missing = Script { steps: vec![body(data(1, "a")), body("")], end: ended(0.0, 3), ..Script::default() };
    let followed = run_with(POLICY, missing).await;
    assert_eq!(fault(&followed), Some(Fault::StreamIncomplete));
    // Two rounds of four.
    assert_eq!((followed.script.played, followed.script.asked), (8, 1));

    let refused = Script { steps: vec![body(""), Step::NoAnswer], end: ended(0.0, 1), ..Script::default() };
    assert_eq!(fault(&run_with(POLICY, refused).await), Some(Fault::OutputConnection));
}

#[tokio::test(start_paused = true)]
async fn a_process_that_knows_fewer_frames_than_were_read_is_not_believed() {
    let script = Script { steps: vec![body(data(1, "a")), body("")], end: ended(0.0, 0), ..Script::default() };
    assert_eq!(fault(&run_with(POLICY, script).await), Some(Fault::StreamEnded));
}

#[tokio::test(start_paused = true)]
async fn without_tolerance_the_first_failure_ends_it() {
    let none = Policy { attempts: 0, ..POLICY };
    let followed = run_with(none, Script { steps: vec![body("")], ..Script::default() }).await;
    assert_eq!((fault(&followed), followed.script.played), (Some(Fault::StreamEnded), 1));
}

#[tokio::test(start_paused = true)]
async fn what_becomes_of_each_connection_is_told_in_order() {
    let steps = vec![
        body(data(1, "a")),
        Step::NoAnswer,
        Step::Status(429, Some(30)),
        Step::Body(data(2, "b").into_bytes(), End::Reset),
        Step::Body(Vec::new(), End::Hang),
        Step::Silence,
        body(&EXIT[..10]),
        body(EXIT),
    ];
    let lost = |reason, attempt, ms| Notice::Reconnecting { reason, attempt, delay: Duration::from_millis(ms) };
    assert_eq!(
        run(steps).await.script.told,
        [
            Notice::Connected,
            lost(Loss::Ended, 1, 250),
            lost(Loss::Failure(Failure::Refused), 2, 500),
            lost(Loss::Status(429), 3, 30_000),
            Notice::Connected,
            lost(Loss::Failure(Failure::Reset), 1, 250),
            Notice::Connected,
            lost(Loss::Idle, 2, 0),
            lost(Loss::Idle, 3, 0),
            Notice::Connected,
            lost(Loss::Ended, 4, 500),
            Notice::Connected,
        ]
    );
    let mut tried = vec![Notice::Connected];
    for (attempt, ms) in [(1, 250), (2, 500), (3, 1000)] {
        tried.extend([lost(Loss::Ended, attempt, ms), Notice::Connected]);
    }
    assert_eq!(run(vec![body("")]).await.script.told, tried, "giving up is no reconnecting");
}

fn step() -> impl Strategy<Value = Step> {
    let end = prop_oneof![Just(End::Clean), Just(End::Reset), Just(End::Hang)];
    prop_oneof![
        Just(Step::NoAnswer),
        Just(Step::Silence),
        prop::sample::select(vec![400, 404, 410, 429, 500, 503]).prop_map(|status| Step::Status(status, Some(1))),
        // A replay from anywhere in a journal of six frames and an exit, cut anywhere.
        (1u64..7, 0usize..600, end).prop_map(|(from, length, end)| {
            let journal: String = (from..7).map(|seq| data(seq, &seq.to_string())).chain([EXIT.to_owned()]).collect();
            Step::Body(journal.as_bytes()[..length.min(journal.len())].to_vec(), end)
        }),
    ]
}

proptest! {
    /// Whatever an endpoint does: following ends, accepts no frame twice and none out of order, and reports success
    /// only with an exit and everything before it.
    #[test]
    fn no_behaviour_loses_or_doubles_output(mut steps in prop::collection::vec(step(), 1..12), newest in prop::option::of(0u64..8)) {
        steps.push(Step::NoAnswer);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let end = newest.and_then(|newest| ended(0.0, newest));
        let followed = runtime.block_on(run_with(POLICY, Script { steps, end, ..Script::default() }));
        prop_assert!("123456".starts_with(&followed.stdout), "{:?}", followed.stdout);
        if followed.result.is_ok() {
            let asked = newest.map_or(6, |newest| if followed.script.asked > 0 { newest } else { 6 });
            prop_assert!(followed.stdout.len() as u64 == 6 || followed.stdout.len() as u64 == asked);
        }
    }
}
