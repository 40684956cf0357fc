/** One message a line, as a host reads them. */
export const answer = (message: object): void => void process.stdout.write(`${JSON.stringify(message)}\n`);
