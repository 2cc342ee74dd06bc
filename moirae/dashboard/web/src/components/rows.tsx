import { Table, Tbody, Td, Th, Thead, Tr } from "./library";
import type { ReactNode } from "react";
import type { Row } from "../api";
import { formatValue } from "./common";

const MAX_ROWS = 100;

/** Rows with the columns of all of them. */
export function RowsTable({ rows, label }: { rows: Row[]; label: string }) {
  const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const cells = rows.slice(0, MAX_ROWS).map((row) => columns.map((column) => formatValue(row[column])));
  return (
    <>
      <DataTable label={label} columns={columns} rows={cells} />
      {rows.length > MAX_ROWS && <p className="note">{rows.length - MAX_ROWS} more rows</p>}
    </>
  );
}

/** A table that becomes a list of cards on narrow screens. */
export function DataTable({ label, columns, rows }: { label: string; columns: string[]; rows: ReactNode[][] }) {
  return (
    <div className="table-frame">
      <Table aria-label={label} variant="compact" gridBreakPoint="grid-md">
        <Thead>
          <Tr>
            {columns.map((column) => (
              <Th key={column}>{column}</Th>
            ))}
          </Tr>
        </Thead>
        <Tbody>
          {rows.map((cells, row) => (
            <Tr key={row}>
              {cells.map((cell, index) => (
                <Td key={index} dataLabel={columns[index]}>
                  {cell}
                </Td>
              ))}
            </Tr>
          ))}
        </Tbody>
      </Table>
    </div>
  );
}
