// What is measured and what it must reach. Owns the numbers; how a workload is run, subject.mjs knows.

/**
 * @typedef {"addon" | "sixteenth" | "baseline" | "late" | "curl"} Contestant  `sixteenth` is the addon with a sixteenth of the
 *   output, `late` the baseline that trims its tail late
 * @typedef {object} Workload
 * @property {string} title
 * @property {"stream" | "together" | "series" | "quiet" | "load"} measure
 * @property {Contestant[]} contestants
 * @property {"ascii" | "cjk"} [kind] what a command prints
 * @property {number} [bytes] how much of it
 * @property {number} [frame] in frames of this size
 * @property {number} [count] how many commands
 * @property {number} [warmUp] commands before those
 * @property {boolean} [paced] with the pacing that is the default
 * @property {number} [seconds]
 * @property {number} [rounds] where once is enough
 * @property {Target[]} targets
 *
 * @typedef {object} Target
 * @property {string} title
 * @property {number} limit
 * @property {"most" | "least"} bound
 * @property {string} unit
 * @property {(of: Figures) => number} value from one round's figures
 *
 * @typedef {{[figure: string]: number}} Figure
 * @typedef {{[contestant: string]: Figure}} Figures
 */

const KIB = 1024;
const MIB = 1024 * KIB;

/** @param {number} limit @returns {Target} */
const timesCurl = (limit) => ({
  title: "of curl's time", limit, bound: "most", unit: "×", value: ({ addon, curl }) => addon.ms / curl.ms,
});
/** @param {number} limit @returns {Target} */
const timesFaster = (limit) => ({
  title: "faster than the baseline", limit, bound: "least", unit: "×", value: ({ addon, baseline }) => baseline.ms / addon.ms,
});
/** @param {string} title @param {string} figure @param {number} limit @param {string} unit @param {number} [divisor] @returns {Target} */
const addonFigure = (title, figure, limit, unit, divisor = 1) => ({
  title, limit, bound: "most", unit, value: ({ addon }) => addon[figure] / divisor,
});
/** @type {Target} */
const SAME_RATE = {
  title: "of the time a MiB takes in 64 MiB", limit: 1.1, bound: "most", unit: "×", value: ({ addon, sixteenth }) => addon.ms / 16 / sixteenth.ms,
};
const MAIN_THREAD = [
  addonFigure("of the main thread's time per MiB", "mainMs", 1, "ms", 64),
  addonFigure("event-loop delay, p99", "delayP99", 5, "ms"),
];

/** @type {Workload[]} */
export const WORKLOADS = [
  {
    title: "64 MiB in 32 KiB frames", measure: "stream", kind: "ascii", bytes: 64 * MIB, frame: 32 * KIB,
    contestants: ["addon", "curl", "baseline", "late"], targets: [timesCurl(2.5), timesFaster(40), ...MAIN_THREAD],
  },
  {
    title: "64 MiB of CJK and emoji in 32 KiB frames", measure: "stream", kind: "cjk", bytes: 64 * MIB, frame: 32 * KIB,
    contestants: ["addon", "curl", "baseline", "late"], targets: [timesCurl(4), ...MAIN_THREAD],
  },
  {
    title: "1 GiB in 64 KiB frames", measure: "stream", kind: "ascii", bytes: 1024 * MIB, frame: 64 * KIB,
    contestants: ["addon", "sixteenth", "curl"], targets: [SAME_RATE, addonFigure("memory growth", "grownKiB", 32, "MiB", KIB)],
  },
  {
    title: "16 MiB in 1 KiB frames", measure: "stream", kind: "ascii", bytes: 16 * MIB, frame: KIB,
    contestants: ["addon", "curl", "baseline", "late"], targets: [timesFaster(300), timesCurl(4)],
  },
  {
    title: "4 MiB in 1 KiB frames", measure: "stream", kind: "ascii", bytes: 4 * MIB, frame: KIB,
    contestants: ["addon", "curl", "baseline", "late"], targets: [timesFaster(6)],
  },
  {
    title: "1 MiB in 128-byte frames", measure: "stream", kind: "ascii", bytes: MIB, frame: 128,
    contestants: ["addon", "curl", "baseline", "late"], targets: [timesFaster(6)],
  },
  {
    title: "200 commands at once, 64 KiB each", measure: "together", kind: "ascii", bytes: 64 * KIB, frame: 32 * KIB, count: 200,
    contestants: ["addon", "baseline"], targets: [timesFaster(3)],
  },
  {
    title: "short command, default pacing, 10 in a row", measure: "series", kind: "ascii", bytes: 6, frame: KIB, count: 10, paced: true,
    contestants: ["addon", "baseline"], targets: [addonFigure("a command", "ms", 5, "ms")],
  },
  {
    title: "short command without pacing, 200 in a row", measure: "series", kind: "ascii", bytes: 6, frame: KIB, count: 200, warmUp: 50,
    contestants: ["addon", "baseline"], targets: [timesFaster(1)],
  },
  {
    title: "a quiet stream for a minute", measure: "quiet", count: 1, seconds: 60, rounds: 1,
    contestants: ["addon"], targets: [addonFigure("of CPU", "cpuMs", 5, "ms")],
  },
  {
    title: "memory of a quiet stream, one of 100", measure: "quiet", count: 100, seconds: 1,
    contestants: ["addon"], targets: [addonFigure("memory", "grownKiB", 100, "KiB")],
  },
  {
    title: "require", measure: "load", contestants: ["addon"], targets: [addonFigure("to load", "ms", 10, "ms")],
  },
];
