// Rounds → medians, verdicts and tables in Markdown.

import { summary } from "./statistics.mjs";

/** @typedef {ReturnType<typeof judged>} Judged */

/** What a workload came to: each figure's median with its minimum and maximum, and each target's, which is taken within
 * each round, since the machine's speed changes from round to round.
 * @param {import("./workloads.mjs").Workload} workload
 * @param {import("./workloads.mjs").Figures[]} rounds
 */
export function judged({ title, contestants, targets }, rounds) {
  const figures = Object.fromEntries(contestants.map((contestant) => {
    const names = Object.keys(rounds[0][contestant]);
    return [contestant, Object.fromEntries(names.map((name) => [name, summary(rounds.map((round) => round[contestant][name]))]))];
  }));
  const verdicts = targets.map(({ title: what, limit, bound, unit, value }) => {
    const measured = summary(rounds.map(value));
    return { title: what, limit, bound, unit, measured, reached: bound === "most" ? measured.median <= limit : measured.median >= limit };
  });
  return { title, rounds: rounds.length, figures, targets: verdicts };
}

/** @param {number} number */
const short = (number) => (number >= 100 ? number.toFixed(0) : number >= 10 ? number.toFixed(1) : number.toFixed(2));
/** @param {{median: number, min: number, max: number} | undefined} figure */
const spread = (figure) => (figure ? `**${short(figure.median)}** (${short(figure.min)}–${short(figure.max)})` : "");

/** @param {string[]} head @param {string[][]} rows */
const table = (head, rows) => [head, head.map(() => "---"), ...rows].map((row) => `| ${row.join(" | ")} |`).join("\n");

/** @param {{date: string, node: string, machine: string, binaryMiB: number, workloads: Judged[]}} report */
export function tables({ date, node, machine, binaryMiB, workloads }) {
  const contestants = ["addon", "sixteenth", "curl", "baseline", "late"];
  const times = workloads.filter(({ figures }) => figures.addon.ms).map(({ title, figures }) =>
    [title, ...contestants.map((contestant) => spread(figures[contestant]?.ms))]);
  const streams = workloads.filter(({ figures }) => figures.addon.mainMs).flatMap(({ title, figures }) =>
    contestants.filter((contestant) => figures[contestant]?.mainMs).map((contestant) => {
      const { mainMs, cpuMs, delayP99, delayMax, grownKiB } = figures[contestant];
      const mib = { median: grownKiB.median / 1024, min: grownKiB.min / 1024, max: grownKiB.max / 1024 };
      return [title, contestant, ...[mainMs, cpuMs, delayP99, delayMax, mib].map(spread)];
    }));
  const verdicts = workloads.flatMap(({ title, targets }) => targets.map(({ title: what, limit, bound, unit, measured, reached }) =>
    [title, what, `${bound === "most" ? "≤" : "≥"} ${limit} ${unit}`, spread(measured), reached ? "yes" : "**no**"]));
  return [
    `${date}, Node.js ${node}, ${machine}. Medians (minimum–maximum); ratios are taken within each round.`,
    "### Time in ms",
    table(["workload", "addon", "addon, a sixteenth", "curl", "baseline", "baseline, trimming late"], times),
    "### While output streams",
    table(["workload", "by", "main thread, ms", "all threads, ms", "event-loop delay p99, ms", "longest, ms", "memory growth, MiB"], streams),
    "### What must be reached",
    table(["workload", "figure", "must be", "measured", "reached"], [
      ...verdicts,
      ["the addon", "binary", "≤ 6 MiB", short(binaryMiB), binaryMiB <= 6 ? "yes" : "**no**"],
    ]),
  ].join("\n\n");
}
