// Every task of the store.

import { Table, rowsOf } from "./table.js";
import { TASK_COLUMNS, filterField, heading } from "./parts.js";

export async function showTasks(page) {
  const table = new Table({
    label: "Tasks of the store", path: "/tasks", columns: TASK_COLUMNS.map((c) => ({ ...c })), order: "gain",
    open: (row) => `#/task/${row.task.id.slice(0, 16)}`, noun: rowsOf("task"), empty: "No task fits.",
  });
  page.append(heading("Tasks", filterField("Filter tasks", (text) => table.search(text))), table.element);
  return { shown: () => table.later() };
}
