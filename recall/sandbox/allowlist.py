"""What SQL written by users may consist of, by the names of Spark's classes.

Everything that is not named here is rejected. The functions are all those of Spark 4.2 that only
compute: the same answer for the same row, at any time, on any machine. Left out are those that read
from outside (files, Java, Avro and XML), report who runs a query and where, are not deterministic,
or raise errors on purpose. No I/O.
"""

# Nodes of a parsed plan, before any name is looked up. Commands, scripts, hints, table functions,
# IDENTIFIER and the like have nodes of their own, which are not listed.
PARSED_NODES = frozenset(
    """
    Project Filter Aggregate UnresolvedHaving Join SubqueryAlias UnresolvedRelation
    UnresolvedSubqueryColumnAliases UnresolvedWith Generate Union Distinct Intersect Except
    OneRowRelation Sort GlobalLimit LocalLimit WithWindowDefinition
    """.split()
)

# Expressions of a parsed plan that are not allowed: they look names up by text, or hold queries.
FORBIDDEN_PARTS = frozenset(
    """
    ExpressionWithUnresolvedIdentifier PlanWithUnresolvedIdentifier ScalarSubquery Exists
    ListQuery InSubquery LateralSubquery FunctionTableSubqueryArgumentExpression
    UnresolvedTableArgPlanId NamedParameter PosParameter
    """.split()
)

# Nodes of an analysed plan, whose leaves are views.
ANALYSED_NODES = frozenset(
    """
    Project Filter Aggregate Join SubqueryAlias View Union Distinct Generate Expand WithCTE
    CTERelationDef CTERelationRef OneRowRelation Intersect Except
    """.split()
)

# Expressions of an analysed plan.
EXPRESSIONS = frozenset(
    """
    Abs Acos Acosh Add AddMonths AggregateExpression Alias And AnyValue ApproxTopK
    ApproxTopKAccumulate ApproxTopKCombine ApproxTopKEstimate ApproximatePercentile
    ArrayAggregate ArrayAppend ArrayCompact ArrayContains ArrayDistinct ArrayExcept ArrayExists
    ArrayFilter ArrayForAll ArrayInsert ArrayIntersect ArrayJoin ArrayMax ArrayMin ArrayPosition
    ArrayPrepend ArrayRemove ArrayRepeat ArraySize ArraySort ArrayTransform ArrayUnion
    ArraysOverlap ArraysZip Ascii Asin Asinh Atan Atan2 Atanh AttributeReference Average BRound
    Base64 Between Bin BinaryPad BinaryPredicate BitAndAgg BitLength BitOrAgg BitXorAgg
    BitmapAndAgg BitmapBitPosition BitmapBucketNumber BitmapConstructAgg BitmapCount BitmapOrAgg
    BitwiseAnd BitwiseCount BitwiseGet BitwiseNot BitwiseOr BitwiseXor BoolAnd BoolOr CaseWhen
    Cast Cbrt Ceil CheckOverflow Chr Coalesce Collate Collation CollectList CollectSet
    CommonExpressionDef CommonExpressionRef Concat ConcatWs Contains Conv ConvertTimezone Corr
    Cos Cosh Cot Count CountIf CountMinSketchAgg CovPopulation CovSample Crc32 CreateArray
    CreateMap CreateNamedStruct Csc CsvToStructs DateAdd DateAddInterval DateAddYMInterval
    DateDiff DateFormatClass DateFromUnixDate DatePart DateSub DatetimeSub DayName DayOfMonth
    DayOfWeek DayOfYear Decode Divide DivideDTInterval DivideInterval DivideYMInterval ElementAt
    Elt Encode EndsWith EqualNull EqualNullSafe EqualTo EulerNumber Exp Explode Expm1 Extract
    ExtractANSIIntervalDays ExtractANSIIntervalHours ExtractANSIIntervalMinutes
    ExtractANSIIntervalMonths ExtractANSIIntervalSeconds ExtractANSIIntervalYears
    ExtractIntervalDays ExtractIntervalHours ExtractIntervalMinutes ExtractIntervalMonths
    ExtractIntervalSeconds ExtractIntervalYears Factorial FindInSet First Flatten Floor
    FormatNumber FormatString FromUTCTimestamp FromUnixTime Get GetArrayItem
    GetArrayStructFields GetJsonObject GetMapValue GetStructField GetTimestamp GreaterThan
    GreaterThanOrEqual Greatest Grouping GroupingID Hex HistogramNumeric HllSketchAgg
    HllSketchEstimate HllUnion HllUnionAgg Hour HyperLogLogPlusPlus Hypot ILike If In InSet
    InitCap Inline IntegralDivide IsNaN IsNotNull IsNull IsValidUTF8 IsValidVariant
    IsVariantNull JsonObjectKeys JsonToStructs JsonTuple KllMergeAggBigint KllMergeAggDouble
    KllMergeAggFloat KllSketchAggBigint KllSketchAggDouble KllSketchAggFloat KllSketchGetNBigint
    KllSketchGetNDouble KllSketchGetNFloat KllSketchGetQuantileBigint KllSketchGetQuantileDouble
    KllSketchGetQuantileFloat KllSketchGetRankBigint KllSketchGetRankDouble
    KllSketchGetRankFloat KllSketchMergeBigint KllSketchMergeDouble KllSketchMergeFloat
    KllSketchToStringBigint KllSketchToStringDouble KllSketchToStringFloat
    KnownFloatingPointNormalized KnownNotNull KnownNullable Kurtosis LambdaFunction Last LastDay
    Least Left Length LengthOfJsonArray LessThan LessThanOrEqual Levenshtein Like LikeAll
    LikeAny ListAgg Literal Log Log10 Log1p Log2 Logarithm Lower Luhncheck MakeDTInterval
    MakeDate MakeInterval MakeTime MakeTimestamp MakeTimestampFromDateTime MakeTimestampLTZ
    MakeTimestampNTZ MakeValidUTF8 MakeYMInterval MapConcat MapContainsKey MapEntries MapFilter
    MapFromArrays MapFromEntries MapKeys MapValues MapZipWith Mask Max MaxBy MaxMinByK Md5
    Median MicrosToTimestamp MillisToTimestamp Min MinBy Minute Mode Month MonthName
    MonthsBetween Multiply MultiplyDTInterval MultiplyInterval MultiplyYMInterval Murmur3Hash
    NaNvl NamedLambdaVariable NextDay NormalizeNaNAndZero Not NotLikeAll NotLikeAny NullIf
    NullIfZero Nvl Nvl2 OctetLength Or Overlay ParseJson ParseToDate ParseToTimestamp
    ParseToTimestampLTZ ParseToTimestampNTZ ParseUrl Percentile PercentileCont PercentileDisc Pi
    Pmod PosExplode Pow PreciseTimestampConversion Quarter Quote RLike RegExpCount RegExpExtract
    RegExpExtractAll RegExpInStr RegExpReplace RegExpSubStr RegrAvgX RegrAvgY RegrCount
    RegrIntercept RegrR2 RegrSXX RegrSXY RegrSYY RegrSlope Remainder ResolvedCollation Reverse
    Right Rint Round RoundCeil RoundFloor ST_AsBinary ST_GeogFromWKB ST_GeomFromWKB ST_SetSrid
    ST_Srid SchemaOfCsv SchemaOfJson SchemaOfVariant SchemaOfVariantAgg Sec Second
    SecondWithFraction SecondsToTimestamp Sentences Sequence Sha1 Sha2 ShiftLeft ShiftRight
    ShiftRightUnsigned Signum Sin Sinh Size Skewness Slice SortArray SortOrder SoundEx SplitPart
    Sqrt Stack StartsWith StddevPop StddevSamp StringDecode StringInstr StringLPad StringLocate
    StringRPad StringRepeat StringReplace StringSpace StringSplit StringToMap StringTranslate
    StringTrim StringTrimBoth StringTrimLeft StringTrimRight StructsToCsv StructsToJson
    Substring SubstringIndex Subtract SubtractDates SubtractTimes SubtractTimestamps Sum Tan
    Tanh ThetaDifference ThetaIntersection ThetaIntersectionAgg ThetaSketchAgg
    ThetaSketchEstimate ThetaUnion ThetaUnionAgg TimeAdd TimeBucket TimeDiff TimeFromMicros
    TimeFromMillis TimeFromSeconds TimeToMicros TimeToMillis TimeToSeconds TimeTrunc TimeWindow
    TimestampAdd TimestampAddInterval TimestampAddYMInterval TimestampDiff ToBinary ToCharacter
    ToDegrees ToNumber ToRadians ToTime ToUTCTimestamp ToUnixTimestamp ToVariantObject
    TransformKeys TransformValues TruncDate TruncTimestamp TryAdd TryAverage TryDivide
    TryElementAt TryEval TryMakeInterval TryMakeTimestamp TryMakeTimestampFromDateTime
    TryMakeTimestampLTZ TryMakeTimestampNTZ TryMod TryMultiply TryParseJson TryParseUrl
    TrySubtract TrySum TryToBinary TryToDate TryToNumber TryToTime TryToTimestamp TryUrlDecode
    TryValidateUTF8 TryVariantGet TupleDifferenceDouble TupleDifferenceInteger
    TupleDifferenceThetaDouble TupleDifferenceThetaInteger TupleIntersectionAggDouble
    TupleIntersectionAggInteger TupleIntersectionDouble TupleIntersectionInteger
    TupleIntersectionThetaDouble TupleIntersectionThetaInteger TupleSketchAggDouble
    TupleSketchAggInteger TupleSketchEstimateDouble TupleSketchEstimateInteger
    TupleSketchSummaryDouble TupleSketchSummaryInteger TupleSketchThetaDouble
    TupleSketchThetaInteger TupleUnionAggDouble TupleUnionAggInteger TupleUnionDouble
    TupleUnionInteger TupleUnionThetaDouble TupleUnionThetaInteger TypeOf TypedNullLiteral
    UnBase64 UnaryMinus UnaryPositive Unhex UnixDate UnixMicros UnixMillis UnixSeconds
    UnixTimestamp Upper UrlDecode UrlEncode ValidateUTF8 VariancePop VarianceSamp VariantGet
    VectorAvg VectorCosineSimilarity VectorInnerProduct VectorL2Distance VectorNorm
    VectorNormalize VectorSum WeekDay WeekOfYear WidthBucket WindowTime With XxHash64 Year
    ZeroIfNull ZipWith
    """.split()
)

# What only internal queries have: detection of absence reads the next row, and queries about events
# number the rows of each event and may have window functions and subqueries.
INTERNAL_NODES = frozenset({"Window", "LateralJoin", "Sort", "GlobalLimit", "LocalLimit", "Offset"})
_SUBQUERIES = frozenset({"ScalarSubquery", "Exists", "ListQuery", "InSubquery", "LateralSubquery"})
INTERNAL_FORBIDDEN_PARTS = FORBIDDEN_PARTS - _SUBQUERIES
INTERNAL_EXPRESSIONS = _SUBQUERIES | frozenset(
    """
    WindowExpression WindowSpecDefinition SpecifiedWindowFrame UnspecifiedFrame$ CurrentRow$
    UnboundedPreceding$ UnboundedFollowing$ Lead Lag RowNumber Rank DenseRank PercentRank CumeDist
    NTile NthValue OuterReference
    """.split()
)

# Aggregates that depend on the order of rows. In answers about history that order is fixed when
# partial answers are merged.
INTERNAL_UNORDERED_AGGREGATES = frozenset({"CollectList", "CollectSet"})

# Functions that call Java by name: dropped from each session that runs SQL of users.
DROPPED_FUNCTIONS = ("reflect", "java_method", "try_reflect")
