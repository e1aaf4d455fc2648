// Orders the rows that an exported file holds, as the server orders those of the store.

const KINDS = ["measured", "predicted", "traffic"];
const KEYS = {
  gain: (row) => row.speedup && [row.speedup.kind === "measured" ? 1 : 0, row.speedup.ratio],
  best: (row) => row.best && [KINDS.indexOf(row.best.kind), row.best.value],
  name: (row) => [row.task.name.toLowerCase()],
  tried: (row) => [row.tried],
  right: (row) => [row.right],
  spent: (row) => [row.spend.microdollars, row.spend.tokens],
  at: (row) => [row.at],
  rank: (row) => row.rank && [KINDS.indexOf(row.rank.kind), row.rank.value],
  status: (row) => row.status && [row.status],
  author: (row) => [row.author],
  idea: (row) => [row.idea],
  task: (row) => [row.task.name],
};

export function sorted(rows, { order, descending, q = "" }) {
  const key = KEYS[order];
  const text = q.toLowerCase();
  const said = (row) => [row.task.name, row.task.signature, row.task.shapes, row.idea ?? "", row.author ?? ""];
  const found = text ? rows.filter((row) => said(row).some((part) => part.toLowerCase().includes(text))) : rows;
  const known = found.filter((row) => key(row));
  known.sort((a, b) => (descending ? -1 : 1) * compared(key(a), key(b)));
  return [...known, ...found.filter((row) => !key(row))];
}

function compared(left, right) {
  for (let i = 0; i < left.length; i += 1) {
    if (left[i] < right[i]) return -1;
    if (left[i] > right[i]) return 1;
  }
  return 0;
}
