/** The service that a client's conversation is held with; it restarts in the middle. */
import { createInterface } from "node:readline/promises";

const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

/** Where the service is. */
export const url = process.argv[2];

/** A picture of one dot. */
export const PNG =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/** Have the service stopped and started again; returns where it is now. */
export async function restarted() {
  console.log("restart");
  return (await answers.next()).value;
}
