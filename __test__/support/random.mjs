// Chance that can be had again: a test names its seed when it fails.

/** Numbers from 0 up to, not including, `n`, the same ones for each seed (xorshift). */
export function randomFrom(seed) {
  let state = (seed ^ 0x9e3779b9) >>> 0 || 1;
  return (n) => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) % n;
  };
}
