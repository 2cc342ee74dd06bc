import type { ReactNode } from "react";
import type { Row } from "../api";
import { formatValue } from "./common";
import { LongText } from "./text";

const MAX_ROWS = 100;

/** Rows with the columns of all of them. `names`: a heading for each row. */
export function RowsTable({ rows, label, names }: { rows: Row[]; label: string; names?: string[] }) {
  const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const cells = rows.slice(0, MAX_ROWS).map((row) => columns.map((column) => <LongText key={column} text={formatValue(row[column])} />));
  return (
    <>
      <DataTable label={label} columns={columns} rows={cells} names={names} />
      {rows.length > MAX_ROWS && <p className="note">{rows.length - MAX_ROWS} more rows</p>}
    </>
  );
}

interface Props {
  label: string;
  columns: string[];
  rows: ReactNode[][];
  names?: string[];
  /** Whether the columns fit a narrow screen. */
  isNarrow?: boolean;
}

/** A table that becomes a list of cards on narrow screens, if it is not narrow itself. */
export function DataTable({ label, columns, rows, names, isNarrow = false }: Props) {
  return (
    <table className={isNarrow ? "data narrow" : "data"} aria-label={label}>
      <thead>
        <tr>
          {names && <td />}
          {columns.map((column) => (
            <th key={column} scope="col">
              {column}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((cells, row) => (
          <tr key={row}>
            {names && <th scope="row">{names[row]}</th>}
            {cells.map((cell, index) => (
              <td key={index} data-label={columns[index]}>
                {cell}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
