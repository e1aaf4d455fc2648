// The combine functions of usual types: KW_PREBUILT(name, In, Out, Combine) for each. The runtime has
// them compiled, for slots of either distance, since two take a third of a softmax's compilation.
#ifdef KW_WIDE
#define KW_PREBUILT_NAME(name) kw_prebuilt_dense_##name
#else
#define KW_PREBUILT_NAME(name) kw_prebuilt_##name
#endif

KW_PREBUILT(sum_of_float, float, float, kw_reduce<kw_sum, 32>)
KW_PREBUILT(max_of_float, float, float, kw_reduce<kw_maximum, 32>)
KW_PREBUILT(min_of_float, float, float, kw_reduce<kw_minimum, 32>)
KW_PREBUILT(sum_of_half, half, half, kw_reduce<kw_sum, 32>)
KW_PREBUILT(max_of_half, half, half, kw_reduce<kw_maximum, 32>)
KW_PREBUILT(min_of_half, half, half, kw_reduce<kw_minimum, 32>)
KW_PREBUILT(sum_of_bfloat, bfloat, bfloat, kw_reduce<kw_sum, 32>)
KW_PREBUILT(max_of_bfloat, bfloat, bfloat, kw_reduce<kw_maximum, 32>)
KW_PREBUILT(min_of_bfloat, bfloat, bfloat, kw_reduce<kw_minimum, 32>)
KW_PREBUILT(sum_of_int, int, int, kw_reduce<kw_sum, 32>)
KW_PREBUILT(max_of_int, int, int, kw_reduce<kw_maximum, 32>)
KW_PREBUILT(min_of_int, int, int, kw_reduce<kw_minimum, 32>)
KW_PREBUILT(sum_of_uint, uint, uint, kw_reduce<kw_sum, 32>)
KW_PREBUILT(max_of_uint, uint, uint, kw_reduce<kw_maximum, 32>)
KW_PREBUILT(min_of_uint, uint, uint, kw_reduce<kw_minimum, 32>)
KW_PREBUILT(and_of_int, int, int, kw_reduce<kw_conjunction, 32>)
KW_PREBUILT(or_of_int, int, int, kw_reduce<kw_disjunction, 32>)
KW_PREBUILT(xor_of_int, int, int, kw_reduce<kw_exclusion, 32>)
KW_PREBUILT(and_of_uint, uint, uint, kw_reduce<kw_conjunction, 32>)
KW_PREBUILT(or_of_uint, uint, uint, kw_reduce<kw_disjunction, 32>)
KW_PREBUILT(xor_of_uint, uint, uint, kw_reduce<kw_exclusion, 32>)
KW_PREBUILT(inclusive_sum_of_float, float, float, kw_scan<kw_sum, 32, true>)
KW_PREBUILT(exclusive_sum_of_float, float, float, kw_scan<kw_sum, 32, false>)
KW_PREBUILT(inclusive_sum_of_int, int, int, kw_scan<kw_sum, 32, true>)
KW_PREBUILT(exclusive_sum_of_int, int, int, kw_scan<kw_sum, 32, false>)
KW_PREBUILT(inclusive_sum_of_uint, uint, uint, kw_scan<kw_sum, 32, true>)
KW_PREBUILT(exclusive_sum_of_uint, uint, uint, kw_scan<kw_sum, 32, false>)
KW_PREBUILT(votes, uchar, uint, kw_take_votes)
// What a lane reads that is not there is another number under the sanitizer: see kw_absent.
#ifndef KW_SANITIZE
KW_PREBUILT(lane_of_float, kw_letter<float>, float, kw_deliver<kw_to_lane<32>>)
KW_PREBUILT(partner_of_float, kw_letter<float>, float, kw_deliver<kw_to_partner<32>>)
KW_PREBUILT(neighbour_of_float, kw_letter<float>, float, kw_deliver<kw_to_neighbour<32>>)
KW_PREBUILT(lane_of_half, kw_letter<half>, half, kw_deliver<kw_to_lane<32>>)
KW_PREBUILT(partner_of_half, kw_letter<half>, half, kw_deliver<kw_to_partner<32>>)
KW_PREBUILT(neighbour_of_half, kw_letter<half>, half, kw_deliver<kw_to_neighbour<32>>)
KW_PREBUILT(lane_of_bfloat, kw_letter<bfloat>, bfloat, kw_deliver<kw_to_lane<32>>)
KW_PREBUILT(partner_of_bfloat, kw_letter<bfloat>, bfloat, kw_deliver<kw_to_partner<32>>)
KW_PREBUILT(neighbour_of_bfloat, kw_letter<bfloat>, bfloat, kw_deliver<kw_to_neighbour<32>>)
KW_PREBUILT(lane_of_int, kw_letter<int>, int, kw_deliver<kw_to_lane<32>>)
KW_PREBUILT(partner_of_int, kw_letter<int>, int, kw_deliver<kw_to_partner<32>>)
KW_PREBUILT(neighbour_of_int, kw_letter<int>, int, kw_deliver<kw_to_neighbour<32>>)
KW_PREBUILT(lane_of_uint, kw_letter<uint>, uint, kw_deliver<kw_to_lane<32>>)
KW_PREBUILT(partner_of_uint, kw_letter<uint>, uint, kw_deliver<kw_to_partner<32>>)
KW_PREBUILT(neighbour_of_uint, kw_letter<uint>, uint, kw_deliver<kw_to_neighbour<32>>)
#endif
#undef KW_PREBUILT
#undef KW_PREBUILT_NAME
