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

// A table that goes on to the right fades out there.
const frames = document.querySelectorAll(".scroll");
const fade = () => {
  for (const frame of frames) {
    frame.classList.toggle("more", frame.scrollWidth - frame.clientWidth - frame.scrollLeft > 1);
  }
};
for (const frame of frames) frame.addEventListener("scroll", fade);
addEventListener("resize", fade);
fade();
