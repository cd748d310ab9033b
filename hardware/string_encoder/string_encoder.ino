/* SPDX-License-Identifier: Apache-2.0 */
/* String-encoder board: Teensy 4.1 with up to four AM4096 encoders on its hardware quadrature counters, 1 kHz over USB.
 *
 * Needs Teensyduino and the library "Teensy-4.x-Quad-Encoder-Library" (mjs513). Wiring: ../wiring.md.
 * Counts are multi-turn and incremental: after power-up the host has to set the zero.
 */
#include <QuadEncoder.h>
#include <Wire.h>

#include "protocol.h"

static const uint32_t FIRMWARE = (1u << 16) | (0u << 8) | 0u;
static const uint32_t PERIOD_US = 1000;

/* Counters 1 to 4 and their A and B pins. Pins 0, 5 and 37 share an input, as do 1 and 36. */
static QuadEncoder encoders[SE_CHANNELS] = {
    QuadEncoder(1, 0, 1), QuadEncoder(2, 2, 3), QuadEncoder(3, 4, 33), QuadEncoder(4, 30, 31)};

/* TWI address of each AM4096, to watch its magnet; -1: not connected, and its magnet is not watched. All leave the
 * factory with address 0: give each its own before they share the bus (pins 18 and 19). */
static const int8_t MAGNET_ADDRESSES[SE_CHANNELS] = {-1, -1, -1, -1};
static const uint8_t MAGNET_REGISTER = 34, GAIN_REGISTER = 35;
static const uint16_t MAGNET_TOO_CLOSE = 1u << 13, MAGNET_TOO_FAR = 1u << 14;
static const uint32_t MAGNET_EVERY_TICKS = 10;

static se_board board;
static se_receiver receiver;
static int32_t raw[SE_CHANNELS];
static uint8_t magnets;
static uint8_t gains[SE_CHANNELS] = {SE_UNKNOWN_GAIN, SE_UNKNOWN_GAIN, SE_UNKNOWN_GAIN, SE_UNKNOWN_GAIN};
static uint32_t next_us, ticks, uptime_s, second_us;

static void read_counters() {
  for (int i = 0; i < SE_CHANNELS; i++) raw[i] = encoders[i].read();
}

static bool read_register(uint8_t address, uint8_t number, uint16_t *value) {
  Wire.beginTransmission(address);
  Wire.write(number);
  if (Wire.endTransmission(false) != 0 || Wire.requestFrom(address, (uint8_t)2) != 2) return false;
  *value = (uint16_t)(Wire.read() << 8);
  *value |= (uint16_t)Wire.read();
  return true;
}

/* An encoder whose registers cannot be read counts as one without a magnet. */
static void look_at_magnet(int channel) {
  if (MAGNET_ADDRESSES[channel] < 0) return;
  const uint8_t address = (uint8_t)MAGNET_ADDRESSES[channel];
  uint16_t state = MAGNET_TOO_FAR, tacho_and_gain = 0;
  bool answered = read_register(address, MAGNET_REGISTER, &state) &&
                  read_register(address, GAIN_REGISTER, &tacho_and_gain);
  if (!answered || (state & (MAGNET_TOO_CLOSE | MAGNET_TOO_FAR)))
    magnets |= 1u << channel;
  else
    magnets &= ~(1u << channel);
  gains[channel] = answered ? (uint8_t)(tacho_and_gain >> 12) : SE_UNKNOWN_GAIN;
}

/* A whole frame or none: write() would wait up to 120 ms for a host that does not read, and then cut the frame. */
static bool send(const uint8_t *payload, size_t size) {
  uint8_t frame[SE_LARGEST_FRAME];
  size_t length = se_frame(payload, size, frame);
  if (!Serial || Serial.availableForWrite() < (int)length) return false;
  Serial.write(frame, length);
  Serial.send_now();
  return true;
}

static void send_board(uint16_t sequence, uint32_t now_us) {
  se_board_info info = {};
  info.sequence = sequence;
  info.time_us = now_us;
  info.firmware = FIRMWARE;
  info.uptime_s = uptime_s;
  info.dropped = board.dropped;
  for (int i = 0; i < SE_CHANNELS; i++) info.gains[i] = gains[i];
  info.serial_number = HW_OCOTP_MAC0 & 0xFFFFFF;
  uint8_t payload[SE_BOARD_PAYLOAD];
  send(payload, se_board_payload(&info, payload));
}

void setup() {
  Serial.begin(1000000); /* USB has no baud rate; the call starts the port. */
  for (int i = 0; i < SE_CHANNELS; i++) {
    encoders[i].setInitConfig();
    /* Ten samples 13 ns apart have to agree. The encoder's fastest edges are 490 ns apart. */
    encoders[i].EncConfig.filterCount = 7;
    encoders[i].EncConfig.filterSamplePeriod = 2;
    encoders[i].init();
  }
  Wire.begin();
  Wire.setClock(400000);
  read_counters();
  se_board_start(&board, raw);
  next_us = second_us = micros();
}

void loop() {
  while (Serial.available()) {
    se_command command;
    if (se_receive(&receiver, (uint8_t)Serial.read(), &command)) {
      read_counters();
      se_board_obey(&board, &command, raw);
    }
  }
  uint32_t now_us = micros();
  if ((int32_t)(now_us - next_us) < 0) return;
  bool missed = now_us - next_us >= PERIOD_US;
  next_us = missed ? now_us + PERIOD_US : next_us + PERIOD_US;

  se_counts frame;
  read_counters();
  se_board_tick(&board, raw, now_us, magnets, missed, &frame);
  uint8_t payload[SE_COUNTS_PAYLOAD];
  se_board_sent(&board, send(payload, se_counts_payload(&frame, payload)));

  ticks++;
  if (now_us - second_us >= 1000000) {
    second_us += 1000000;
    uptime_s++;
    send_board(frame.sequence, now_us);
  } else if (ticks % MAGNET_EVERY_TICKS == 0) {
    look_at_magnet((int)(ticks / MAGNET_EVERY_TICKS % SE_CHANNELS));
  }
}
