/* SPDX-License-Identifier: Apache-2.0 */
#include "protocol.h"

#define COUNTS_TYPE (0x10 | SE_VERSION)
#define BOARD_TYPE (0x20 | SE_VERSION)
#define COMMAND_TYPE (0x80 | SE_VERSION)

/* CRC-16/CCITT-FALSE, four bits at a time: 32 bytes of table. */
uint16_t se_crc(const uint8_t *data, size_t size) {
  static const uint16_t table[16] = {0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50A5, 0x60C6, 0x70E7,
                                     0x8108, 0x9129, 0xA14A, 0xB16B, 0xC18C, 0xD1AD, 0xE1CE, 0xF1EF};
  uint16_t crc = 0xFFFF;
  for (size_t i = 0; i < size; i++) {
    crc = (uint16_t)((crc << 4) ^ table[(crc >> 12) ^ (data[i] >> 4)]);
    crc = (uint16_t)((crc << 4) ^ table[(crc >> 12) ^ (data[i] & 0x0F)]);
  }
  return crc;
}

/* Byte by byte: structures have gaps, and the host's order of bytes is its own. */
static uint8_t *put16(uint8_t *out, uint16_t value) {
  out[0] = (uint8_t)value;
  out[1] = (uint8_t)(value >> 8);
  return out + 2;
}

static uint8_t *put32(uint8_t *out, uint32_t value) {
  return put16(put16(out, (uint16_t)value), (uint16_t)(value >> 16));
}

static size_t finish(uint8_t *out, const uint8_t *end) {
  size_t size = (size_t)(end - out);
  put16(out + size, se_crc(out, size));
  return size + 2;
}

size_t se_counts_payload(const se_counts *frame, uint8_t *out) {
  uint8_t *place = out;
  *place++ = COUNTS_TYPE;
  place = put16(place, frame->sequence);
  place = put32(place, frame->time_us);
  for (int i = 0; i < SE_CHANNELS; i++) place = put32(place, (uint32_t)frame->counts[i]);
  place = put16(place, frame->status);
  return finish(out, place);
}

size_t se_board_payload(const se_board_info *frame, uint8_t *out) {
  uint8_t *place = out;
  *place++ = BOARD_TYPE;
  place = put16(place, frame->sequence);
  place = put32(place, frame->time_us);
  place = put32(place, frame->firmware);
  place = put32(place, frame->uptime_s);
  place = put32(place, frame->dropped);
  for (int i = 0; i < SE_CHANNELS; i++) *place++ = frame->gains[i];
  place = put32(place, frame->serial_number);
  return finish(out, place);
}

size_t se_frame(const uint8_t *payload, size_t size, uint8_t *out) {
  size_t code = 0, place = 1;
  for (size_t i = 0; i < size; i++) {
    if (payload[i] == 0) {
      out[code] = (uint8_t)(place - code);
      code = place++;
    } else {
      out[place++] = payload[i];
    }
  }
  out[code] = (uint8_t)(place - code);
  out[place++] = 0;
  return place;
}

/* Undoes COBS in place; false where lengths do not add up. data[0] is the first code. */
static bool unstuff(uint8_t *data, size_t size) {
  size_t place = data[0];
  while (place < size) {
    size_t code = data[place];
    data[place] = 0;
    place += code;
  }
  return place == size;
}

bool se_receive(se_receiver *receiver, uint8_t byte, se_command *command) {
  if (byte != 0) {
    if (receiver->size < sizeof receiver->data)
      receiver->data[receiver->size++] = byte;
    else
      receiver->too_long = true;
    return false;
  }
  uint8_t *data = receiver->data;
  const uint8_t *payload = data + 1;
  bool good = !receiver->too_long && receiver->size == SE_COMMAND_PAYLOAD + 1 && unstuff(data, receiver->size) &&
              payload[0] == COMMAND_TYPE;
  if (good) {
    uint16_t crc = (uint16_t)(payload[3] | payload[4] << 8);
    good = crc == se_crc(payload, 3);
  }
  if (good) {
    command->command = payload[1];
    command->number = payload[2];
  }
  receiver->size = 0;
  receiver->too_long = false;
  return good;
}

void se_board_start(se_board *board, const int32_t raw[SE_CHANNELS]) {
  *board = (se_board){0};
  for (int i = 0; i < SE_CHANNELS; i++) board->origin[i] = board->last[i] = (uint32_t)raw[i];
}

void se_board_obey(se_board *board, const se_command *command, const int32_t raw[SE_CHANNELS]) {
  if (command->command != SE_COMMAND_ZERO || command->number == board->command_number) return;
  board->command_number = command->number;
  for (int i = 0; i < SE_CHANNELS; i++) board->origin[i] = board->last[i] = (uint32_t)raw[i];
  board->jumped = 0;
  board->zeroed = true;
  board->zeros = (board->zeros + 1) & 0x0F;
}

void se_board_tick(se_board *board, const int32_t raw[SE_CHANNELS], uint32_t time_us, uint8_t magnets, bool missed,
                   se_counts *frame) {
  for (int i = 0; i < SE_CHANNELS; i++) {
    /* Unsigned differences wrap, signed ones would be undefined. */
    int32_t step = (int32_t)((uint32_t)raw[i] - board->last[i]);
    if (step > SE_LARGEST_STEP_COUNTS || step < -SE_LARGEST_STEP_COUNTS) board->jumped |= SE_JUMP(i);
    board->last[i] = (uint32_t)raw[i];
    frame->counts[i] = (int32_t)((uint32_t)raw[i] - board->origin[i]);
  }
  uint16_t status = (uint16_t)(board->jumped | (magnets & 0x0F) | (uint16_t)(board->zeros << SE_ZEROS_SHIFT));
  if (missed) status |= SE_MISSED_TICK;
  if (board->dropped_since) status |= SE_FRAMES_DROPPED;
  if (board->zeroed) status |= SE_ZEROED;
  if (board->ticks < SE_BOOT_TICKS) {
    status |= SE_JUST_BOOTED;
    board->ticks++;
  }
  frame->sequence = board->sequence++;
  frame->time_us = time_us;
  frame->status = status;
}

void se_board_sent(se_board *board, bool taken) {
  board->dropped_since = !taken;
  if (!taken) board->dropped++;
}
