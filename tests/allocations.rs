//! The way of a frame from bytes to the kept text must not allocate: memory that is used again is why the cost of output
//! is linear and flat. Nor does what nobody listens to. A test binary of its own, since it replaces the allocator.

use base64::Engine as _;
use createos_native::events::{Cause, Events, Loss, Notice, Throttle, events};
use createos_native::stream::frame::{Frame, Scratch, parse};
use createos_native::stream::lines::Lines;
use createos_native::stream::sequence::{Sequence, Verdict};
use createos_native::stream::tail::Tail;
use createos_native::stream::text::Decoder;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Duration;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

fn count() {
    // Not when the thread is going away.
    let _ = ALLOCATIONS.try_with(|allocations| allocations.set(allocations.get() + 1));
}

// SAFETY: every call is passed on unchanged to the system's allocator; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as the caller of this function promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as the caller of this function promised.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as the caller of this function promised.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Renders `frames` frames, whose characters are cut by frames, and reads them in chunks that cut the lines.
fn allocations(text: &str, frames: u64, size: usize, escape: bool) -> u64 {
    const CHUNK: usize = 50_000;
    let text = text.repeat(2 * size / text.len() + 1);
    let (mut lines, mut scratch, mut sequence) = (Lines::new(), Scratch::default(), Sequence::new());
    let (mut buffer, mut decoder, mut tail) = (Vec::new(), Decoder::new(), Tail::new(4_194_304));
    let (mut body, mut counted, mut first) = (Vec::new(), 0, 1);
    while first <= frames {
        // The rendering is not what is counted.
        body.clear();
        while body.len() < CHUNK {
            let start = first as usize % size;
            let mut payload = base64::prelude::BASE64_STANDARD.encode(&text.as_bytes()[start..start + size]);
            if escape {
                payload = payload.replace('/', "\\/");
            }
            let line = format!(
                "{{\"type\":\"data\",\"seq\":{first},\"stream\":\"stdout\",\"data_base64\":\"{payload}\",\"meta\":{{\"a\":[]}}}}\r\n"
            );
            body.extend_from_slice(line.as_bytes());
            first += 1;
        }
        let before = ALLOCATIONS.get();
        for mut chunk in body.chunks(CHUNK) {
            while let Some(line) = lines.next(&mut chunk).unwrap() {
                let Frame::Data(frame) = parse(line, &mut scratch).unwrap() else { panic!("all frames are data") };
                assert_eq!(sequence.accept(frame.seq), Ok(Verdict::New));
                frame.decode(&mut buffer).unwrap();
                decoder.push(&buffer).for_each(|text| tail.push(text));
            }
        }
        counted += ALLOCATIONS.get() - before;
    }
    assert!(sequence.last() >= frames && tail.truncated());
    counted
}

#[test]
fn a_hundred_frames_cost_less_than_one_allocation() {
    for (text, frames, escape) in
        [("plain text\n", 100_000, false), ("漢字 and \u{1f600}\n", 30_000, false), ("???>>>~~~", 20_000, true)]
    {
        let counted = allocations(text, frames, 256, escape);
        assert!(counted < frames / 100, "{counted} allocations for {text:?}");
    }
}

#[test]
fn telling_allocates_only_where_somebody_listens() {
    let counted = |events: &Events| {
        let before = ALLOCATIONS.get();
        let about = events.about("sandbox", Some("process"));
        for attempt in 0..1000 {
            about.tell(Notice::Connected);
            about.tell(Notice::Reconnecting { reason: Loss::Idle, attempt, delay: Duration::ZERO });
            about.tell(Notice::Throttled(Throttle { cause: Cause::Budget, wait: Duration::ZERO }));
        }
        about.end();
        ALLOCATIONS.get() - before
    };
    assert_eq!(counted(&Events::default()), 0);
    let (heard, _told) = events();
    assert!(counted(&heard) >= 3000);
}
