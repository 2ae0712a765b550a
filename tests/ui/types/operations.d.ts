// The module that the server makes of its table of operations.

type Row = [
  method: string,
  path: string,
  capability: string,
  effect: string,
  places: { path?: string[]; query?: string[] },
];

declare const operations: Record<string, Row>;
export default operations;
