//! How fast the core is, step by step and as a whole, in memory: `cargo bench -p createos-bench`.

use std::hint::black_box;

use createos_bench::{ASCII, CJK, body, first_line, read, text};
use createos_native::stream::{
    frame::{Frame, Scratch, parse},
    tail::Tail,
    text::{Counted, Decoder, JsText},
};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const MIB: usize = 1024 * 1024;
const KINDS: [(&str, &str); 2] = [("ascii", ASCII), ("cjk", CJK)];
/// A frame's payload.
const SIZES: [(&str, usize); 3] = [("128 B", 128), ("1 KiB", 1024), ("32 KiB", 32 * 1024)];

fn throughput(bytes: usize) -> Throughput {
    Throughput::Bytes(bytes as u64)
}

/// One line → one frame.
fn frames(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("frame");
    for (name, size) in SIZES {
        let body = body(ASCII, size, size);
        let line = first_line(&body);
        let mut scratch = Scratch::default();
        group.throughput(throughput(line.len()));
        group.bench_function(name, |bencher| bencher.iter(|| parse(black_box(line), &mut scratch).is_ok()));
    }
    group.finish();
}

/// A frame's payload → bytes.
fn base64(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("base64");
    for (name, size) in SIZES {
        let body = body(ASCII, size, size);
        let mut scratch = Scratch::default();
        let Ok(Frame::Data(frame)) = parse(first_line(&body), &mut scratch) else { panic!("the frame is data") };
        let mut payload = Vec::new();
        group.throughput(throughput(size));
        group.bench_function(name, |bencher| bencher.iter(|| black_box(&frame).decode(&mut payload).is_ok()));
    }
    group.finish();
}

/// Bytes → text with its length, and text → what JavaScript takes.
fn texts(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("text");
    for (kind, unit) in KINDS {
        let text = text(unit, 65_536);
        group.throughput(throughput(text.len()));
        group.bench_function(format!("decode {kind}"), |bencher| {
            let mut decoder = Decoder::new();
            bencher.iter(|| {
                decoder.push(black_box(text.as_bytes())).map(|piece| Counted::from(piece).units).sum::<usize>()
            });
        });
        group.bench_function(format!("convert {kind}"), |bencher| {
            bencher.iter(|| JsText::from(black_box(text.as_str())));
        });
    }
    group.finish();
}

/// Text kept, the oldest dropped.
fn tails(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("tail");
    for (kind, unit) in KINDS {
        let text = text(unit, 32 * 1024);
        let mut tail = Tail::new(4_194_304);
        group.throughput(throughput(text.len()));
        group.bench_function(kind, |bencher| bencher.iter(|| tail.push(black_box(text.as_str()))));
    }
    group.finish();
}

/// A body → everything that JavaScript gets.
fn pipeline(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("pipeline");
    group.sample_size(20);
    for (kind, unit) in KINDS {
        for (name, frame) in SIZES {
            let body = body(unit, 8 * MIB, frame);
            group.throughput(throughput(8 * MIB));
            group
                .bench_function(format!("{kind}, frames of {name}"), |bencher| bencher.iter(|| read(black_box(&body))));
        }
    }
    group.finish();
}

criterion_group!(core, frames, base64, texts, tails, pipeline);
criterion_main!(core);
