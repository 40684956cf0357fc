//! Runs a scenario of the core so many times, for `bench/instructions.mjs`, which counts the instructions. What is done
//! once, whatever the number of times, cancels out there.
//!
//!     instructions list
//!     instructions SCENARIO TIMES

use std::{hint::black_box, process::ExitCode};

use createos_bench::{ASCII, CJK, body, read};

const MIB: usize = 1024 * 1024;

/// A name, and the body that is read.
const SCENARIOS: [(&str, &str, usize, usize); 4] = [
    ("1 MiB in 32 KiB frames", ASCII, MIB, 32 * 1024),
    ("1 MiB of CJK and emoji in 32 KiB frames", CJK, MIB, 32 * 1024),
    ("1 MiB in 1 KiB frames", ASCII, MIB, 1024),
    ("256 KiB in 128-byte frames", ASCII, MIB / 4, 128),
];

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["list"] => SCENARIOS.iter().for_each(|(name, ..)| println!("{name}")),
        [name, times] => {
            let Some((_, text, bytes, frame)) = SCENARIOS.iter().find(|(known, ..)| *known == name) else {
                return ExitCode::FAILURE;
            };
            let Ok(times) = times.parse::<u32>() else { return ExitCode::FAILURE };
            let body = body(text, *bytes, *frame);
            for _ in 0..times {
                black_box(read(black_box(&body)));
            }
        }
        _ => return ExitCode::FAILURE,
    }
    ExitCode::SUCCESS
}
