// What became of fixes, what resolutions say beside their text, and the steps that found the cause.

import { Card, CardBody, CardTitle, FormGroup, FormSelect, FormSelectOption, Label, TextInput } from "./library";
import { type Step, type TagSummary, get } from "../api";
import { type Effect, EFFECTS, type Remedy } from "../answers";
import { useLoaded } from "../load";
import { formatDuration } from "../time";
import { SafeLink } from "./common";
import { LongText } from "./text";

const MAX_STEPS = 5; // that are shown
const MAX_RESULT = 300; // characters of what a step showed

export type Fixes = ReadonlyMap<string, TagSummary>;

/** What became of the alerts of a rule, by the tag of their resolutions. */
export function useFixes(rule: string): Fixes {
  const tags = useLoaded((signal) => get<TagSummary[]>("/tags", { rule }, signal), [rule]);
  return new Map(tags.data?.map((tag) => [tag.tag, tag]));
}

/** `worked 5 of 6 times, came back once after 2 h (within a day)` */
export function FixRecord({ fix }: { fix: TagSummary | undefined }) {
  if (!fix) {
    return null;
  }
  const within = formatDuration(fix.within * 1_000);
  return (
    <span className="note fix-record" title={`Came back: an alert of the same key fired within ${within} after the end.`}>
      {fix.summary} (within {within})
    </span>
  );
}

interface RemedyProps {
  remedy: Pick<Remedy, "tag" | "effect" | "superseded_by" | "link" | "recorded_tag">;
}

/** The tag of a resolution, what it says of it, and its link. */
export function RemedyLabels({ remedy }: RemedyProps) {
  const { tag, effect, superseded_by, link, recorded_tag } = remedy;
  return (
    <>
      {tag && (
        <Label isCompact color="teal">
          {tag}
        </Label>
      )}{" "}
      {recorded_tag && <span className="note">recorded as {recorded_tag}</span>}{" "}
      {effect && (
        <Label isCompact color={effect === "did not help" ? "orange" : "grey"}>
          {superseded_by ? `superseded by ${superseded_by}` : effect}
        </Label>
      )}{" "}
      {link && <SafeLink url={link}>post-mortem or ticket</SafeLink>}
    </>
  );
}

export interface ResolutionDetails {
  effect: Effect | "";
  supersededBy: string;
  link: string;
}

interface DetailsProps {
  details: ResolutionDetails;
  change: (details: ResolutionDetails) => void;
}

/** What a resolution says beside its text and tag. */
export function ResolutionFields({ details, change }: DetailsProps) {
  const { effect, supersededBy, link } = details;
  return (
    <>
      <FormGroup label="Outcome" fieldId="effect">
        <FormSelect id="effect" value={effect} onChange={(_, value) => change({ ...details, effect: value as Effect | "" })}>
          <FormSelectOption value="" label="it fixed it" />
          {Object.entries(EFFECTS).map(([value, name]) => (
            <FormSelectOption key={value} value={value} label={name} />
          ))}
        </FormSelect>
      </FormGroup>
      {effect === "superseded" && (
        <FormGroup label="Tag of what is done instead" fieldId="superseded-by" isRequired>
          <TextInput
            id="superseded-by"
            value={supersededBy}
            onChange={(_, value) => change({ ...details, supersededBy: value })}
            maxLength={200}
            list="tags"
          />
        </FormGroup>
      )}
      <FormGroup label="Post-mortem or ticket (optional)" fieldId="link">
        <TextInput
          id="link"
          type="url"
          placeholder="https://"
          value={link}
          onChange={(_, value) => change({ ...details, link: value })}
          maxLength={2_000}
        />
      </FormGroup>
    </>
  );
}

/** What found the cause of similar past alerts fastest. */
export function StepsCard({ alert, revision }: { alert: string; revision: number }) {
  const steps = useLoaded((signal) => get<Step[]>(`/alerts/${alert}/steps`, {}, signal), [alert, revision]);
  if (!steps.data?.length) {
    return null;
  }
  return (
    <Card isCompact component="section" aria-label="What to check first">
      <CardTitle component="h3">What to check first</CardTitle>
      <CardBody>
        <ol className="steps">
          {steps.data.slice(0, MAX_STEPS).map((step) => (
            <li key={step.step}>
              <code>{step.step}</code> <span className="note">{describeStep(step)}</span>
              {step.result && (
                <p className="note">
                  <LongText text={step.result} length={MAX_RESULT} />
                </p>
              )}
            </li>
          ))}
        </ol>
        <p className="note">By what found the cause of similar past alerts fastest.</p>
      </CardBody>
    </Card>
  );
}

/** `found the cause 3 of 4 times, in 4 min` */
function describeStep({ checked, confirmed, ruled_out, seconds }: Step): string {
  const times = `${checked} ${checked === 1 ? "time" : "times"}`;
  const outcome = confirmed ? `found the cause ${confirmed} of ${times}` : ruled_out ? `ruled something out ${ruled_out} of ${times}` : `left it open ${times}`;
  return seconds === null ? outcome : `${outcome}, in ${formatDuration(seconds * 1_000)}`;
}
