// Ends the tree of a command for certain: SIGTERM to everything in it, the grace period, then SIGKILL until nothing is
// left. A process that forks while it is looked for is met by stopping the tree first: what is stopped cannot fork.
import { setTimeout as delay } from "node:timers/promises";
import { sendSignal } from "./signals.mjs";

/** How often a tree is looked at while it may still end by itself. */
const LOOK_MS = 20;
/** Rounds of killing before the answer is that the tree has not ended (a process stuck in the kernel). */
const ROUNDS = 500;

/**
 * @param {import("./command.mjs").Command} command
 * @param {number} graceMs
 * @param {import("./index.mjs").Clock} clock
 * @returns {Promise<boolean>} whether nothing is left
 */
export async function terminateTree(command, graceMs, clock) {
  if (await command.treeExited()) return true;
  if (graceMs > 0) {
    for (const { pid } of await command.tree()) sendSignal(pid, "SIGTERM");
    const deadline = clock.now() + graceMs;
    while (clock.now() < deadline) {
      if (await command.treeExited()) return true;
      await delay(LOOK_MS);
    }
  }
  await stopAll(() => command.tree());
  for (let round = 0; round < ROUNDS; round++) {
    for (const { pid } of await command.tree()) sendSignal(pid, "SIGKILL");
    if (await command.treeExited()) return true;
  }
  return false;
}

/**
 * Stops processes, new ones too, until all are.
 * @param {() => Promise<import("./proc.mjs").Entry[]>} look
 * @returns {Promise<Set<number>>} those that were running before
 */
export async function stopAll(look) {
  const stopped = new Set();
  for (let round = 0; round < ROUNDS; round++) {
    const running = (await look()).filter(({ state }) => state !== "T" && state !== "t");
    if (running.length === 0) break;
    for (const { pid } of running) {
      sendSignal(pid, "SIGSTOP");
      stopped.add(pid);
    }
  }
  return stopped;
}
