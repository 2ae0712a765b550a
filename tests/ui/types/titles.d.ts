// The module that the server makes of the titles of its operations.

declare const titles: Record<string, string>;
export default titles;
