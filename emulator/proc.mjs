// What the kernel says about processes, read from /proc: who lives, whose child it is, which namespaces it is in.
// Reading the whole table is the expensive part, so one reading serves everybody who asked before it began.
// It only reads; signals are sent by those who ask.
import { openSync, readFileSync, readdirSync, readlinkSync } from "node:fs";

/** The shortest time between two readings of the table. */
const INTERVAL_MS = 10;

/**
 * @typedef {{pid: number, parent: number, state: string, namespaces: Record<string, string>, marker: string}} Entry
 */

export class ProcessTable {
  #kinds;
  #marker;
  #next = null;
  #last = 0;

  /**
   * @param {string[]} kinds namespace links to read, as named in /proc/PID/ns
   * @param {string} [marker] an environment variable whose value tells trees apart where namespaces cannot
   */
  constructor(kinds, marker) {
    this.#kinds = kinds;
    this.#marker = marker;
  }

  /**
   * A reading that begins after this call.
   * @returns {Promise<Snapshot>}
   */
  snapshot() {
    this.#next ??= new Promise((resolve) => {
      const wait = Math.max(0, this.#last + INTERVAL_MS - Date.now());
      setTimeout(() => {
        this.#next = null;
        const snapshot = new Snapshot(this.#read());
        this.#last = Date.now();
        resolve(snapshot);
      }, wait);
    });
    return this.#next;
  }

  #read() {
    /** @type {Map<number, Entry>} */
    const entries = new Map();
    let names;
    try {
      names = readdirSync("/proc");
    } catch {
      return entries;
    }
    for (const name of names) {
      const pid = Number(name);
      if (!Number.isInteger(pid)) continue;
      const stat = readStat(pid);
      // Kernel threads are children of process 2; a zombie has ended and only waits to be noticed.
      if (!stat || stat.parent === 2 || stat.state === "Z" || stat.state === "X") continue;
      const namespaces = {};
      for (const kind of this.#kinds) namespaces[kind] = namespaceOf(pid, kind);
      entries.set(pid, { pid, ...stat, namespaces, marker: this.#marker ? markerOf(pid, this.#marker) : "" });
    }
    return entries;
  }
}

class Snapshot {
  #entries;
  #children = new Map();

  /** @param {Map<number, Entry>} entries */
  constructor(entries) {
    this.#entries = entries;
    for (const entry of entries.values()) {
      const siblings = this.#children.get(entry.parent);
      if (siblings) siblings.push(entry);
      else this.#children.set(entry.parent, [entry]);
    }
  }

  /**
   * All processes that `belongs` accepts, and their descendants whatever they changed.
   * @param {(entry: Entry) => boolean} belongs
   * @returns {Entry[]}
   */
  select(belongs) {
    const found = new Map();
    const visit = (entry) => {
      if (found.has(entry.pid)) return;
      found.set(entry.pid, entry);
      for (const child of this.#children.get(entry.pid) ?? []) visit(child);
    };
    for (const entry of this.#entries.values()) if (belongs(entry)) visit(entry);
    return [...found.values()];
  }
}

/**
 * The direct children of a process, also where the kernel lacks the `children` file.
 * @param {number} pid
 * @returns {number[]}
 */
export function childrenOf(pid) {
  try {
    return readFileSync(`/proc/${pid}/task/${pid}/children`, "latin1").trim().split(" ").filter(Boolean).map(Number);
  } catch {
    try {
      return readdirSync("/proc").map(Number).filter((other) => Number.isInteger(other) && readStat(other)?.parent === pid);
    } catch {
      return [];
    }
  }
}

/**
 * @param {number} pid
 * @param {string} kind
 * @returns {string} such as `pid:[4026531836]`; empty when the process has ended
 */
export function namespaceOf(pid, kind) {
  try {
    return readlinkSync(`/proc/${pid}/ns/${kind}`);
  } catch {
    return "";
  }
}

/**
 * Keeps a process's namespace from going with its last process: the kernel would give its number to another one.
 * @param {number} pid
 * @param {string} kind
 * @returns {number | null} a descriptor to close in the end; `null` if the process is gone already
 */
export function holdNamespace(pid, kind) {
  try {
    return openSync(`/proc/${pid}/ns/${kind}`, "r");
  } catch {
    return null;
  }
}

/**
 * The number that a process has in its own, innermost namespace.
 * @param {number} pid
 */
export function innerPid(pid) {
  try {
    const line = /^NSpid:\s*(.*)$/m.exec(readFileSync(`/proc/${pid}/status`, "latin1"));
    return line ? Number(line[1].split(/\s+/).at(-1)) : pid;
  } catch {
    return pid;
  }
}

/**
 * When a process was started, in the kernel's ticks: with it, a process number cannot be mistaken after reuse.
 * @param {number|"self"} pid
 * @returns {string} empty when there is no such process
 */
export function startTime(pid) {
  try {
    return fields(pid)[19];
  } catch {
    return "";
  }
}

function readStat(pid) {
  try {
    const [state, parent] = fields(pid);
    return { state, parent: Number(parent) };
  } catch {
    return null;
  }
}

/** The fields of /proc/PID/stat after the name, which may hold spaces and parentheses itself. */
function fields(pid) {
  const text = readFileSync(`/proc/${pid}/stat`, "latin1");
  return text.slice(text.lastIndexOf(")") + 2).split(" ");
}

function markerOf(pid, name) {
  try {
    const text = readFileSync(`/proc/${pid}/environ`, "latin1");
    const at = `\0${text}`.indexOf(`\0${name}=`);
    return at < 0 ? "" : text.slice(at + name.length + 1).split("\0", 1)[0];
  } catch {
    return "";
  }
}
