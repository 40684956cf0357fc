// Owns how several rounds become one number.

/** @param {number[]} numbers */
export function median(numbers) {
  const sorted = [...numbers].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** @param {number[]} numbers */
export function summary(numbers) {
  return { median: median(numbers), min: Math.min(...numbers), max: Math.max(...numbers) };
}
