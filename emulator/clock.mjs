// The emulator's time: heartbeats, state changes, grace periods, long polls and the rate limit's window all ask
// this clock, so that a test can scale or replace it. Waiting for the kernel (pipes, process ends) is not its
// business: that takes as long as it takes.

/**
 * @param {import("./index.mjs").ClockOption} [option]
 * @returns {import("./index.mjs").Clock}
 */
export function createClock(option) {
  if (option === undefined) return scaled(1);
  if (typeof option.now === "function") {
    if (typeof option.setTimeout !== "function" || typeof option.clearTimeout !== "function") {
      throw new TypeError("clock: now, setTimeout and clearTimeout belong together.");
    }
    return option;
  }
  if (typeof option.speed === "number" && Number.isFinite(option.speed) && option.speed > 0) return scaled(option.speed);
  throw new TypeError("clock: {speed: number above 0} or {now, setTimeout, clearTimeout}.");
}

/** @param {number} speed */
function scaled(speed) {
  const start = Date.now();
  return {
    now: () => start + (Date.now() - start) * speed,
    setTimeout: (callback, ms) => setTimeout(callback, ms / speed),
    clearTimeout: (timer) => clearTimeout(timer),
  };
}
