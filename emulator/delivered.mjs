// When a connection is to be reset after a certain byte, the bytes before it should arrive: a reset throws away what
// the kernel still holds for sending. The kernel says how much that is in /proc/net/tcp.
import { readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";

const LOOK_MS = 2;
/** A peer that does not read for so long does not get the rest. */
const PATIENCE_MS = 2_000;
/** Where the kernel cannot be asked. */
const GUESS_MS = 20;

/** Resolves when the peer's kernel has everything that was written. @param {import("node:net").Socket} socket */
export async function delivered(socket) {
  for (const end = Date.now() + PATIENCE_MS; Date.now() < end && !socket.destroyed;) {
    const waiting = sendQueue(socket.localPort, socket.remotePort);
    if (waiting === null) return void (await delay(GUESS_MS));
    if (waiting === 0) return;
    await delay(LOOK_MS);
  }
}

function sendQueue(localPort, remotePort) {
  const hex = (port) => port.toString(16).toUpperCase().padStart(4, "0");
  try {
    const table = readFileSync("/proc/net/tcp", "latin1");
    // The columns: local address, remote address, state, bytes to send : bytes to read.
    const line = new RegExp(`: [0-9A-F]{8}:${hex(localPort)} [0-9A-F]{8}:${hex(remotePort)} .. ([0-9A-F]{8}):`).exec(table);
    return line ? parseInt(line[1], 16) : 0;
  } catch {
    return null;
  }
}
