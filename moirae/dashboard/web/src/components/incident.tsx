// An incident: alerts of one failure, why each is part of it, and incidents like it with what fixed them.

import { Card, CardBody, CardTitle, Label } from "./library";
import { Link } from "react-router";
import { type Incident, type IncidentDetails, type IncidentPage, type PastIncident, get } from "../api";
import { useLoaded } from "../load";
import { formatDuration } from "../time";
import { Score, StateLabel, Time, alertTitle, describeKey, formatCount, shortName } from "./common";
import { RemedyLabels } from "./fixes";
import { LongText } from "./text";

const INTERVAL = 5_000; // milliseconds; an alert is placed some seconds after it fires
const SHOWN_RULES = 3;
const SHOWN_MEMBERS = 5; // on the page of an alert

export type IncidentMember = IncidentDetails["members"][number];

/** `disk-full, cpu-high and 2 more` */
export function describeRules(rules: readonly string[]): string {
  const names = rules.slice(0, SHOWN_RULES).map(shortName).join(", ");
  return rules.length > SHOWN_RULES ? `${names} and ${rules.length - SHOWN_RULES} more` : names;
}

/** State and counts of an incident. */
export function IncidentLabels({ incident }: { incident: Incident }) {
  const { alerts, firing, resolved } = incident;
  return (
    <>
      <Label isCompact color={incident.state === "confirmed" ? "green" : "blue"}>
        {incident.state}
      </Label>{" "}
      {firing > 0 && (
        <Label isCompact color="red">
          {firing === alerts ? "firing" : `${firing} firing`}
        </Label>
      )}{" "}
      <Label isCompact variant="outline">
        {resolved === alerts ? "resolved" : resolved ? `${resolved} of ${alerts} resolved` : "not resolved"}
      </Label>
    </>
  );
}

/** `2026-11-23 08:33:30 UTC (5 min ago), lasted 20 min` */
export function IncidentTimes({ incident, brief = false }: { incident: Incident; brief?: boolean }) {
  return (
    <>
      <Time value={incident.starts_at} brief={brief} />
      {incident.ends_at && `, lasted ${formatDuration(Date.parse(incident.ends_at) - Date.parse(incident.starts_at))}`}
    </>
  );
}

/** The incident of an alert, if it has other alerts or is confirmed. */
export function IncidentCard({ alert }: { alert: string }) {
  const page = useLoaded((signal) => get<IncidentPage>("/incidents", { alert }, signal), [alert], INTERVAL);
  const incident = page.data?.incidents.at(0);
  return incident ? <MembersCard key={incident.id} incident={incident} alert={alert} /> : null;
}

function MembersCard({ incident, alert }: { incident: Incident; alert: string }) {
  const details = useLoaded((signal) => get<IncidentDetails>(`/incidents/${incident.id}`, {}, signal), [incident]);
  const members = details.data?.members ?? [];
  const own = members.find(({ alert_id }) => alert_id === alert);
  const others = members.filter(({ alert_id }) => alert_id !== alert);
  return (
    <Card isCompact component="section" aria-label="Incident">
      <CardTitle component="h2">Incident</CardTitle>
      <CardBody>
        <p>
          <Link to={`/incidents/${incident.id}`}>
            {others.length ? `With ${formatCount(others.length, "other alert")}` : formatCount(incident.alerts, "alert")}
          </Link>{" "}
          <IncidentLabels incident={incident} />
        </p>
        {own && (
          <p className="note">
            Why: <LongText text={own.reason} length={300} />.
          </p>
        )}
        <ul className="members">
          {others.slice(0, SHOWN_MEMBERS).map((member) => (
            <li key={member.alert_id}>
              <MemberLine member={member} />
            </li>
          ))}
        </ul>
        {others.length > SHOWN_MEMBERS && <p className="note">and {others.length - SHOWN_MEMBERS} more.</p>}
      </CardBody>
    </Card>
  );
}

/** An alert, with its rule and key unless they are its title. */
export function MemberLine({ member }: { member: IncidentMember }) {
  const key = describeKey(member.key);
  const parts = member.annotations.summary ? [shortName(member.rule), key].filter(Boolean) : [];
  return (
    <>
      <StateLabel state={member.state} />{" "}
      <Link to={`/alerts/${member.alert_id}`}>
        <LongText text={alertTitle(member)} length={120} />
      </Link>{" "}
      <span className="note">
        {parts.map((part) => `${part}, `)}
        <Time value={member.starts_at} brief />
      </span>
    </>
  );
}

/** A past incident: what it has in common with another, and what resolved its alerts. */
export function SimilarIncident({ past }: { past: PastIncident }) {
  return (
    <Card component="article" isCompact className="similar" aria-label={`Similar incident of ${past.starts_at}`}>
      <CardBody>
        <div className="similar-head">
          <Score score={past.score} title="Similarity of the contexts of all alerts, from 0 to 1" />
          <div>
            <h3>
              <Link to={`/incidents/${past.id}`}>{describeRules(past.rules)}</Link>
            </h3>
            <p className="note">
              {formatCount(past.alerts, "alert")}, <IncidentTimes incident={past} />
            </p>
          </div>
        </div>
        {!past.fixes.length && <p className="note remedy">Nobody noted what was done.</p>}
        {past.fixes.map((fix, index) => (
          <p key={index} className="remedy">
            <strong>
              <LongText text={fix.text} length={300} />
            </strong>{" "}
            <RemedyLabels remedy={{ ...fix, recorded_tag: null }} />{" "}
            <span className="note">
              noted by {fix.author} for {formatCount(fix.alerts, "alert")}
              {fix.record && `; ${fix.record}`}
            </span>
          </p>
        ))}
        {past.shared.length > 0 && <p className="note">Both had:</p>}
        <ul className="terms" aria-label="Shared terms">
          {past.shared.map((term) => (
            <li key={term} className="term">
              <LongText text={term} length={100} />
            </li>
          ))}
        </ul>
      </CardBody>
    </Card>
  );
}
