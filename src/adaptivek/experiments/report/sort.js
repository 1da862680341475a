// A click on a heading sorts its table by that column; a second click turns the order round.
for (const button of document.querySelectorAll("th button")) {
  button.addEventListener("click", () => {
    const heading = button.closest("th"), table = button.closest("table"), body = table.tBodies[0];
    const column = heading.cellIndex;
    const down = heading.getAttribute("aria-sort") === "ascending";
    for (const other of heading.parentElement.cells) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", down ? "descending" : "ascending");
    table.classList.add("sorted");
    const value = (row) => row.cells[column].dataset.value;
    const compare = (a, b) => {
      const [x, y] = [value(a), value(b)];
      if (x === "" || y === "") return (x === "") - (y === ""); // what is not there stays last
      const order = isNaN(x) || isNaN(y) ? x.localeCompare(y) : x - y;
      return down ? -order : order;
    };
    body.append(...[...body.rows].sort(compare));
  });
}

// A table that is wider than its place stands as blocks, one for each line; its headings still sort.
const tables = document.querySelectorAll(".scroll > table");
const fit = () => {
  for (const table of tables) table.classList.remove("stacked");
  const wide = [...tables].filter((table) => table.parentElement.scrollWidth > table.parentElement.clientWidth);
  for (const table of wide) table.classList.add("stacked");
};
addEventListener("resize", fit);
fit();
