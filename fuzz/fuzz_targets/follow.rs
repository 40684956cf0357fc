//! Any behaviour of an endpoint → following a process: it ends, at the time and with the result that the contract's rules
//! give; it takes every frame that came, once and in order; and it succeeds only with an exit.
#![no_main]

use createos_native::{
    process::{
        follow::{Policy, follow},
        outbox::outbox,
        output::Output,
    },
    stream::Stream,
};
use createos_native_fuzz::{
    dice::Dice,
    endpoint::{Case, Playing},
    model::{Seen, expected},
};
use libfuzzer_sys::fuzz_target;
use tokio::time::{sleep, timeout};

/// What was printed, in the order in which it was.
type Printed = Vec<(Stream, String)>;

async fn seen(case: &Case) -> (Seen, Printed, [String; 2]) {
    let (outbox, mut outgoing) = outbox();
    let mut output = Output::new(Some(outbox));
    let mut playing = Playing::new(case);
    let policy = Policy { attempts: case.attempts, delay: case.delay, idle_timeout: Some(case.idle) };
    let following = follow(&mut playing, &mut output, policy);
    let result = match case.stop {
        None => Some(following.await),
        Some(stop) => timeout(stop, following).await.ok(),
    };
    let result = result.map(|result| result.map_err(|error| error.fault));
    output.finish();
    let captured = output.into_captured();
    assert!(!captured.truncated);
    let mut live = Printed::new();
    while let Some(delivery) = outgoing.next().await {
        push(&mut live, delivery.stream, delivery.text);
    }
    let Playing { connects, asked, announced, .. } = playing;
    // Whoever went away may have done so before the last one.
    let again: Vec<_> = connects.iter().skip(1).map(|(at, _)| *at).collect();
    assert!(
        announced.starts_with(&again) && announced.len() <= again.len() + usize::from(result.is_none()),
        "{case:#?}"
    );
    // Which frames were taken shows in what was printed.
    let seen = Seen { result, taken: Vec::new(), connects, asked };
    (seen, live, [captured.stdout.to_string(), captured.stderr.to_string()])
}

/// Adds text; where it was cut is nobody's business.
fn push(live: &mut Printed, stream: Stream, text: String) {
    match live.last_mut() {
        _ if text.is_empty() => {}
        Some((last, joined)) if *last == stream => joined.push_str(&text),
        _ => live.push((stream, text)),
    }
}

/// The text of these frames' streams, and all of it as it was interleaved.
fn printed(case: &Case, frames: &[u64]) -> (Printed, [String; 2]) {
    let mut bytes = [Vec::new(), Vec::new()];
    for &seq in frames {
        let (stream, payload) = &case.journal[seq as usize - 1];
        bytes[stream.index()].extend_from_slice(payload);
    }
    let text = bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let mut decoders = [encoding::Decoder::default(), encoding::Decoder::default()];
    let mut live = Printed::new();
    for &seq in frames {
        let (stream, payload) = &case.journal[seq as usize - 1];
        push(&mut live, *stream, decoders[stream.index()].push(payload));
    }
    for stream in Stream::ALL {
        push(&mut live, stream, decoders[stream.index()].finish());
    }
    (live, text)
}

/// The plain definition of decoding piece by piece: what is certain of all bytes so far, less what was said before.
mod encoding {
    #[derive(Default)]
    pub struct Decoder(Vec<u8>);

    impl Decoder {
        pub fn push(&mut self, bytes: &[u8]) -> String {
            self.0.extend_from_slice(bytes);
            let open = self.0.utf8_chunks().last().map_or(&[][..], |chunk| chunk.invalid());
            let open = match std::str::from_utf8(open) {
                Err(error) if error.error_len().is_none() => open.len(),
                _ => 0,
            };
            let certain: Vec<u8> = self.0.drain(..self.0.len() - open).collect();
            String::from_utf8_lossy(&certain).into_owned()
        }

        pub fn finish(&mut self) -> String {
            String::from_utf8_lossy(&std::mem::take(&mut self.0)).into_owned()
        }
    }
}

fuzz_target!(|input: &[u8]| {
    let case = Case::new(&mut Dice::new(input));
    let expected = expected(&case);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let (mut seen, live, text) = runtime.expect("a runtime").block_on(async {
        // Longer than all waiting that a case can hold: it would not have ended.
        tokio::select! {
            seen = seen(&case) => seen,
            () = sleep(std::time::Duration::from_secs(1_000_000)) => panic!("it does not end: {case:#?}"),
        }
    });
    let (expected_live, expected_text) = printed(&case, &expected.taken);
    assert_eq!(text, expected_text, "{case:#?}");
    assert_eq!(live, expected_live, "{case:#?}");
    seen.taken = expected.taken.clone();
    assert_eq!(seen, expected, "{case:#?}");
    if let Some(Ok(exit)) = &seen.result {
        let all = case.journal.len() as u64;
        let told = case.end.as_ref().filter(|end| end.exit == *exit).map_or(all, |end| end.newest_seq);
        assert!(!case.leaves_nothing_out() || seen.taken.len() as u64 == told, "output is lost: {case:#?}");
    }
});
