/* SPDX-License-Identifier: Apache-2.0 */
/* Frames and state of the string-encoder board, free of any hardware: it compiles on the host too.
 *
 * The other end is continuum_robot/drivers/string_encoder_serial/codec.py, which describes the layout; a test compares
 * both byte for byte. A payload ends with its CRC; se_frame() makes of it what goes over a serial line. Over UDP the
 * payload is the datagram.
 */
#ifndef STRING_ENCODER_PROTOCOL_H
#define STRING_ENCODER_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SE_VERSION 1
#define SE_CHANNELS 4
#define SE_COUNTS_PAYLOAD 27
#define SE_BOARD_PAYLOAD 29
#define SE_COMMAND_PAYLOAD 5
/* What the line adds to a payload: a COBS byte and the delimiter. */
#define SE_FRAME_OVERHEAD 2
#define SE_LARGEST_FRAME (SE_BOARD_PAYLOAD + SE_FRAME_OVERHEAD)

/* Bits of the status word; bits 11 to 14 count the zeros that were set. */
#define SE_MAGNET_FAULT(channel) (1u << (channel))
#define SE_JUMP(channel) (1u << (4 + (channel)))
#define SE_MISSED_TICK (1u << 8)
#define SE_FRAMES_DROPPED (1u << 9)
#define SE_ZEROED (1u << 10)
#define SE_ZEROS_SHIFT 11
#define SE_JUST_BOOTED (1u << 15)

#define SE_COMMAND_ZERO 1
#define SE_UNKNOWN_GAIN 255

/* Counts in a tick above which turns may be missing: at 4096 counts a turn and 1 kHz, 250 turns a second. */
#define SE_LARGEST_STEP_COUNTS 1024
#define SE_BOOT_TICKS 1000

typedef struct {
  uint16_t sequence;
  uint32_t time_us;
  int32_t counts[SE_CHANNELS];
  uint16_t status;
} se_counts;

typedef struct {
  uint16_t sequence;
  uint32_t time_us;
  uint32_t firmware;
  uint32_t uptime_s;
  uint32_t dropped;
  uint8_t gains[SE_CHANNELS];
  uint32_t serial_number;
} se_board_info;

typedef struct {
  uint8_t command;
  uint8_t number;
} se_command;

/* Bytes from the host up to the next delimiter. */
typedef struct {
  uint8_t data[SE_COMMAND_PAYLOAD + 1];
  uint8_t size;
  bool too_long;
} se_receiver;

/* What the board remembers. `raw` counts are those of the hardware counters, which wrap. */
typedef struct {
  uint32_t origin[SE_CHANNELS];
  uint32_t last[SE_CHANNELS];
  uint32_t ticks;
  uint32_t dropped;
  uint16_t sequence;
  uint16_t jumped;
  uint8_t zeros;
  uint8_t command_number;
  bool zeroed;
  bool dropped_since;
} se_board;

uint16_t se_crc(const uint8_t *data, size_t size);

/* Payloads with their CRC; `out` has room for SE_..._PAYLOAD bytes. They return the number of bytes. */
size_t se_counts_payload(const se_counts *frame, uint8_t *out);
size_t se_board_payload(const se_board_info *frame, uint8_t *out);

/* A payload of at most 254 bytes as it goes over the line; `out` has room for SE_FRAME_OVERHEAD bytes more. */
size_t se_frame(const uint8_t *payload, size_t size, uint8_t *out);

/* A byte from the host; true where it completes a command, which is then in `command`. */
bool se_receive(se_receiver *receiver, uint8_t byte, se_command *command);

/* Power-up: counts are from here, and no zero was set. */
void se_board_start(se_board *board, const int32_t raw[SE_CHANNELS]);

/* A command; one whose number was the last one's is a repetition and changes nothing. */
void se_board_obey(se_board *board, const se_command *command, const int32_t raw[SE_CHANNELS]);

/* The frame of a tick. `magnets`: bit i where the magnet of channel i is out of reach; `missed`: a tick was late. */
void se_board_tick(se_board *board, const int32_t raw[SE_CHANNELS], uint32_t time_us, uint8_t magnets, bool missed,
                   se_counts *frame);

/* Whether the frame of the last tick was taken; if not, the next one that is says so. */
void se_board_sent(se_board *board, bool taken);

#ifdef __cplusplus
}
#endif

#endif
