#!/bin/sh
# A wrapper for rustc that makes it count where an input leads, in this project's crates alone: what they are built of is
# the same as for `cargo test`, and need not be built again. Every compiler knows these flags, also one that is no nightly.
case " $* " in
*" --crate-name createos_native "* | *" --crate-name createos_native_fuzz "* | *" fuzz_targets/"*)
  set -- "$@" \
    -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares
  ;;
esac
exec "$@"
