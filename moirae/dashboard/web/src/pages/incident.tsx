// One incident: its alerts, what people decided, and past incidents like it with what fixed them.

import { Checkbox, Card, CardBody, CardTitle, PageSection, Title } from "../components/library";
import { useState } from "react";
import { Link, useParams } from "react-router";
import { type IncidentDetails, type PastIncident, get } from "../api";
import { Missing, Pending, Time, alertTitle, formatCount, useTitle } from "../components/common";
import { type IncidentMember, IncidentLabels, IncidentTimes, MemberLine, SimilarIncident, describeRules } from "../components/incident";
import { IncidentActions } from "../components/incident-actions";
import { LongText, cutText } from "../components/text";
import { useLoaded } from "../load";
import { useIsOperator } from "../session";

const INTERVAL = 5_000; // milliseconds

export function IncidentPage() {
  const id = useParams().incident ?? "";
  const incident = useLoaded(
    (signal) => get<IncidentDetails>(`/incidents/${encodeURIComponent(id)}`, {}, signal),
    [id],
    INTERVAL,
  );
  if (incident.isMissing) {
    return (
      <PageSection>
        <Missing title="There is no such incident">Its alerts may have been deleted, or its address is incomplete.</Missing>
      </PageSection>
    );
  }
  if (incident.data === null) {
    return (
      <PageSection>
        <Title headingLevel="h1">Incident</Title>
        <Pending error={incident.error} lines={8} />
      </PageSection>
    );
  }
  return <Details key={incident.data.id} incident={incident.data} error={incident.error} reload={incident.reload} />;
}

interface DetailsProps {
  incident: IncidentDetails;
  error: string | null;
  reload: () => void;
}

function Details({ incident, error, reload }: DetailsProps) {
  const isOperator = useIsOperator();
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const title = describeRules(incident.rules);
  useTitle(`Incident: ${title}`);
  const similar = useLoaded(
    (signal) => get<PastIncident[]>(`/incidents/${incident.id}/similar`, {}, signal),
    [incident.id, incident.alerts],
  );

  function changed(): void {
    setSelected(new Set());
    reload();
  }

  return (
    <>
      <PageSection className="alert-head">
        <div className="badges">
          <IncidentLabels incident={incident} />
        </div>
        <Title headingLevel="h1">{title}</Title>
        <p className="note">
          {formatCount(incident.alerts, "alert")} since <IncidentTimes incident={incident} />. <Link to="/incidents">All incidents</Link>
        </p>
        {isOperator ? (
          <IncidentActions incident={incident} selected={selected} similar={similar.data ?? []} changed={changed} />
        ) : (
          <p className="note viewer-note">You can read only: to decide about incidents, log in with a token of the role operator.</p>
        )}
        {error && <p className="note error">Not up to date: {error}</p>}
      </PageSection>
      <PageSection className="alert-grid" isFilled>
        <section className="past" aria-labelledby="alerts-title">
          <Title headingLevel="h2" id="alerts-title">
            Alerts, and why each is part of it
          </Title>
          <MemberList members={incident.members} selected={selected} select={isOperator ? setSelected : null} />
        </section>
        <div className="side">
          <Card isCompact>
            <CardTitle component="h2">Similar incidents</CardTitle>
            <CardBody className="similar-incidents">
              {similar.data === null && <Pending error={similar.error} lines={3} />}
              {similar.data?.length === 0 && <p className="note">No past incident is similar. Terms that all incidents have do not count.</p>}
              {similar.data?.map((past) => <SimilarIncident key={past.id} past={past} />)}
            </CardBody>
          </Card>
          <DecisionsCard incident={incident} />
        </div>
      </PageSection>
    </>
  );
}

interface MembersProps {
  members: readonly IncidentMember[];
  selected: ReadonlySet<string>;
  /** Null: alerts cannot be selected. */
  select: ((selected: ReadonlySet<string>) => void) | null;
}

function MemberList({ members, selected, select }: MembersProps) {
  function toggle(alert: string, isChecked: boolean): void {
    select?.(new Set(isChecked ? [...selected, alert] : [...selected].filter((other) => other !== alert)));
  }
  return (
    <ol className={select ? "members selectable" : "members"} aria-label="Alerts, oldest first">
      {members.map((member) => (
        <li key={member.alert_id}>
          {select && (
            <Checkbox
              id={`select-${member.alert_id}`}
              aria-label={`Select ${cutText(alertTitle(member))}`}
              isChecked={selected.has(member.alert_id)}
              onChange={(_, isChecked) => toggle(member.alert_id, isChecked)}
            />
          )}
          <div>
            <MemberLine member={member} />
            <p className="note">
              <LongText text={member.reason} length={300} />
            </p>
          </div>
        </li>
      ))}
    </ol>
  );
}

const DECISIONS: Record<string, string> = {
  confirm: "confirmed it",
  split: "split alerts off",
  merge: "merged another one into it",
};

function DecisionsCard({ incident }: { incident: IncidentDetails }) {
  return (
    <Card isCompact>
      <CardTitle component="h2">What people decided</CardTitle>
      <CardBody>
        {!incident.decisions.length && <p className="note">Nothing yet: it is a proposal.</p>}
        <ol className="notes">
          {incident.decisions.map((decision) => (
            <li key={decision.id}>
              <strong>{decision.author}</strong> {DECISIONS[decision.kind] ?? decision.kind}
              {decision.other && decision.other !== incident.id && decision.kind === "split" && (
                <>
                  : <Link to={`/incidents/${decision.other}`}>the other incident</Link>
                </>
              )}
              {decision.other === incident.id && (
                <>
                  {" "}
                  of <Link to={`/incidents/${decision.incident}`}>another incident</Link>
                </>
              )}
              {decision.comment && (
                <p>
                  <LongText text={decision.comment} length={1_000} />
                </p>
              )}
              <p className="note">
                <Time value={decision.at} />
              </p>
            </li>
          ))}
        </ol>
      </CardBody>
    </Card>
  );
}
