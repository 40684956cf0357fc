// The emulator's directory among the temporary files: made at the start, removed at the end. An emulator that was
// killed cannot remove its own; the next one does, once it is certain that the owner is dead.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync, readlinkSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { rm } from "node:fs/promises";
import path from "node:path";
import { startTime } from "./proc.mjs";

const PREFIX = "createos-emulator-";
const OWNER = "owner.json";

/** Makes the directory of this emulator. @returns {string} */
export function makeWorkDirectory() {
  const directory = mkdtempSync(path.join(tmpdir(), `${PREFIX}${process.pid}-`));
  writeFileSync(path.join(directory, OWNER), JSON.stringify(identify()));
  return directory;
}

/** Removes the directories of emulators that are dead. */
export function removeAbandoned() {
  for (const name of readdirSync(tmpdir())) {
    if (!name.startsWith(PREFIX)) continue;
    const directory = path.join(tmpdir(), name);
    try {
      // Not another user's, who could lead us anywhere.
      if (statSync(directory).uid !== process.getuid?.()) continue;
      if (isDead(JSON.parse(readFileSync(path.join(directory, OWNER), "utf8")))) removeDirectorySync(directory);
    } catch {
      // Without a readable owner nothing can be said about it.
    }
  }
}

/** A process for all time: its number, its start, and where and when that number means anything. */
function identify() {
  return { pid: process.pid, started: startTime("self"), namespace: link("/proc/self/ns/pid"), boot: bootId() };
}

function isDead({ pid, started, namespace, boot }) {
  const here = identify();
  if (boot !== here.boot) return true;
  if (namespace !== here.namespace) return false; // A container's, with numbers of its own.
  if (here.started) return startTime(pid) !== started;
  try {
    process.kill(pid, 0);
    return false;
  } catch (error) {
    return error.code === "ESRCH";
  }
}

function bootId() {
  try {
    return readFileSync("/proc/sys/kernel/random/boot_id", "latin1").trim();
  } catch {
    return "";
  }
}

function link(name) {
  try {
    return readlinkSync(name);
  } catch {
    return "";
  }
}

/** @param {string} directory */
export async function removeDirectory(directory) {
  try {
    await rm(directory, { recursive: true, force: true, maxRetries: 3 });
  } catch {
    removeDirectorySync(directory);
  }
}

/** @param {string} directory */
export function removeDirectorySync(directory) {
  const options = { recursive: true, force: true, maxRetries: 3 };
  try {
    rmSync(directory, options);
  } catch {
    // A command may have taken its own directories' permissions away.
    execFileSync("chmod", ["-R", "u+rwx", "--", directory], { stdio: "ignore" });
    rmSync(directory, options);
  }
}
