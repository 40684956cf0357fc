// Sending signals to processes that may be gone already.
import { constants } from "node:os";

/**
 * @param {number} pid
 * @param {NodeJS.Signals} signal
 */
export function sendSignal(pid, signal) {
  try {
    process.kill(pid, signal);
  } catch {
    // Gone already, which is what every caller would accept.
  }
}

/** @param {unknown} name @returns {name is NodeJS.Signals} */
export const isSignal = (name) => typeof name === "string" && Object.hasOwn(constants.signals, name);

/** The exit code that shells report for a death by signal. @param {NodeJS.Signals} signal */
export const signalExitCode = (signal) => 128 + (constants.signals[signal] ?? 0);
