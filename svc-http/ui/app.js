// Shows the title of each operation of the service, until there is more.
import operations from "./operations.js";

const list = document.createElement("ul");
for (const [name, entry] of Object.entries(operations)) {
  const item = document.createElement("li");
  item.textContent = `${name}: ${entry[3]}`;
  list.append(item);
}
document.querySelector("main")?.append(list);
