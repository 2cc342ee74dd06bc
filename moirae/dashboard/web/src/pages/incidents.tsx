// The incidents of a workspace, newest first.

import { Button, Checkbox, FormSelect, FormSelectOption, PageSection, Title } from "../components/library";
import { useState } from "react";
import { Link } from "react-router";
import { type Incident, type IncidentPage, get } from "../api";
import { Pending, formatCount, useTitle } from "../components/common";
import { IncidentLabels, IncidentTimes, describeRules } from "../components/incident";
import { moveFocus, useKeys } from "../keys";
import { useFilters, useLoaded } from "../load";

const INTERVAL = 5_000; // milliseconds
const PAGE_SIZE = 50;
const MAX_SIZE = 1_000;
const STATES = ["proposed", "confirmed"];

export function IncidentsPage() {
  useTitle("Incidents");
  const [parameters, select] = useFilters();
  const [size, setSize] = useState(PAGE_SIZE);
  const active = parameters.get("active") === "true";
  const unresolved = parameters.get("unresolved") === "true";
  const state = STATES.find((name) => name === parameters.get("state")) ?? "";
  const page = useLoaded(
    (signal) => get<IncidentPage>("/incidents", { active, unresolved, state, limit: size, count: true }, signal),
    [active, unresolved, state, size],
    INTERVAL,
  );
  useKeys({
    j: () => moveFocus(".alert-list .entry", 1),
    k: () => moveFocus(".alert-list .entry", -1),
  });

  return (
    <PageSection>
      <Title headingLevel="h1">Incidents</Title>
      <p className="note">
        Alerts near in time whose contexts, places or changes overlap, proposed as one failure. Each alert keeps its own page and messages.
      </p>
      <div className="incident-filters" role="group" aria-label="Filters">
        <Checkbox id="active" label="Firing now" isChecked={active} onChange={(_, checked) => select({ active: checked ? "true" : "" })} />
        <Checkbox
          id="unresolved"
          label="Not resolved"
          isChecked={unresolved}
          onChange={(_, checked) => select({ unresolved: checked ? "true" : "" })}
        />
        <FormSelect value={state} onChange={(_, value) => select({ state: value })} aria-label="State" className="rule-select">
          <FormSelectOption value="" label="Proposed and confirmed" />
          <FormSelectOption value="proposed" label="Proposed" />
          <FormSelectOption value="confirmed" label="Confirmed" />
        </FormSelect>
      </div>
      {page.data === null ? <Pending error={page.error} lines={6} /> : <IncidentList page={page.data} isFiltered={active || unresolved || state !== ""} />}
      {page.data?.next && size < MAX_SIZE && (
        <Button variant="secondary" onClick={() => setSize(Math.min(MAX_SIZE, size + 200))}>
          Show more
        </Button>
      )}
    </PageSection>
  );
}

function IncidentList({ page, isFiltered }: { page: IncidentPage; isFiltered: boolean }) {
  const { incidents, total } = page;
  return (
    <section aria-labelledby="incidents-title">
      <Title headingLevel="h2" id="incidents-title" size="lg">
        {formatCount(total ?? incidents.length, "incident")}
      </Title>
      {!incidents.length && (
        <p className="note">{isFiltered ? "No incident matches all of these filters." : "No incident of several alerts."}</p>
      )}
      <ul className="alert-list" aria-label="Incidents, newest first">
        {incidents.map((incident) => (
          <li key={incident.id}>
            <Entry incident={incident} />
          </li>
        ))}
      </ul>
    </section>
  );
}

function Entry({ incident }: { incident: Incident }) {
  return (
    <Link to={`/incidents/${incident.id}`} className="entry">
      <span className="row-what">
        <strong>{describeRules(incident.rules)}</strong>
        <span className="note">{formatCount(incident.alerts, "alert")}</span>
      </span>
      <span>
        <span className="note">
          <IncidentTimes incident={incident} />
        </span>
      </span>
      <span>
        <span>
          <IncidentLabels incident={incident} />
        </span>
      </span>
    </Link>
  );
}
